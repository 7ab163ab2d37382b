/* A driver that notes what it is told to start: for Triton's launcher, which is linked with it. */
#include <stdint.h>
#include <stdio.h>
typedef void *P;
typedef struct { unsigned grid[3], block[3], shared; P stream, attributes; unsigned count; } Config;

__attribute__((constructor)) static void unbuffered(void) { setvbuf(stdout, 0, _IONBF, 0); }

int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuGetErrorString(int code, const char **text) { *text = "an error"; return 0; }
int cuCtxGetCurrent(P *c) { *c = (P)5; return 0; }
int cuCtxSetCurrent(P c) { return 0; }
int cuCtxGetDevice(int *d) { *d = 0; return 0; }
int cuCtxGetLimit(size_t *v, int limit) { *v = 1 << 20; return 0; }
int cuCtxSetLimit(int limit, size_t v) { return 0; }
int cuDeviceGet(int *d, int k) { *d = k; return 0; }
int cuDeviceGetAttribute(int *v, int kind, int d) { *v = 232448; return 0; }
int cuDevicePrimaryCtxRetain(P *c, int d) { *c = (P)5; return 0; }
int cuModuleLoadData(P *m, const char *image) { *m = (P)6; return 0; }
int cuModuleUnload(P m) { return 0; }
int cuModuleGetFunction(P *f, P m, const char *name) { printf("function %s\n", name); *f = (P)9; return 0; }
int cuFuncGetAttribute(int *v, int kind, P f) { *v = kind ? 0 : 1024; return 0; }
int cuFuncSetAttribute(P f, int kind, int v) { return 0; }
int cuFuncSetCacheConfig(P f, int c) { return 0; }
int cuPointerGetAttribute(uint64_t *v, int kind, uint64_t at) { *v = at; return 0; }
int cuPointerGetAttributes(unsigned n, int *kinds, P *values, uint64_t at) { return 1; }
int cuStreamIsCapturing(P s, int *v) { *v = 0; return 0; }
int cuOccupancyMaxActiveClusters(int *n, P f, P c) { return 1; }
int cuTensorMapEncodeTiled(void) { return 1; }
int cuTensorMapEncodeIm2col(void) { return 1; }
/* Parameters: a pointer, two numbers of 8 bytes, one of 1 byte, two pointers. */
int cuLaunchKernelEx(Config *c, P f, P *values, P *extra) {
  printf("%ld: %u,%u,%u programs of %u,%u,%u threads, %u bytes, on %ld, %u attributes, %ld:", (long)f, c->grid[0], c->grid[1], c->grid[2],
         c->block[0], c->block[1], c->block[2], c->shared, (long)c->stream, c->count, (long)extra);
  for (int k = 0; k < 6; k++) printf(" %lu", k == 3 ? *(uint8_t *)values[k] : *(uint64_t *)values[k]);
  printf("\n");
  return 0; }
