// small_caches.c FILE: writes this machine's topology for hwloc (HWLOC_XMLFILE), with at most 8 MiB in each cache of
// level 3. Ceilings of memory are measured over arrays that are four times as large as all caches: on a server of
// hundreds of MiB each test that measures them would fill a gibibyte.
#include <hwloc.h>
#include <stdio.h>

int main(int argc, char **argv) {
    const hwloc_uint64_t most_bytes = 8u << 20;
    hwloc_topology_t topology;
    hwloc_obj_t cache = NULL;
    if (argc != 2 || hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0) {
        fprintf(stderr, "small_caches: give a file to write; hwloc must know this machine\n");
        return 1;
    }
    while ((cache = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_L3CACHE, cache)) != NULL) {
        cache->attr->cache.size = cache->attr->cache.size < most_bytes ? cache->attr->cache.size : most_bytes;
    }
    const int code = hwloc_topology_export_xml(topology, argv[1], 0);
    hwloc_topology_destroy(topology);
    return code != 0;
}
