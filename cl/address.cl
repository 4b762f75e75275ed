// address.cl: where a buffer lies in the device's memory.

kernel void find_address(const global uchar *buffer, global ulong *address) { *address = (ulong)buffer; }
