// The machine's own MPI, which this is linked with, and in front of it the answer that it takes GPUs' memory:
// true of the shims' GPUs alone, whose memory is the process's. Never near a real GPU.
extern "C" {

__attribute__((visibility("default"))) int MPIX_Query_cuda_support() { return 1; }

#ifdef SHIM_OF_MPICH
__attribute__((visibility("default"))) int MPIX_GPU_query_support(int gpus, int *supported) {
    *supported = gpus == 0;
    return 0;
}
#endif
}
