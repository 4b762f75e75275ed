// npy.h: arrays that NumPy saved (.npy): the header, a Python dict, tells type, order and shape.
#ifndef STEPMARK_SRC_DATA_NPY_H
#define STEPMARK_SRC_DATA_NPY_H

#include "src/data/data_format.h"

bool sm_npy_begins(const uint8_t *head, size_t n);

// Reads the header in the first n bytes: whole numbers of any width and byte order, in C's order, of any shape.
// SM_ERR_UNSUPPORTED names another type or order; SM_ERR_FORMAT: malformed, or of another size than its shape.
sm_status sm_npy_parse(const char *path, const uint8_t *head, size_t n, int64_t size_bytes, sm_id_layout *layout);

#endif
