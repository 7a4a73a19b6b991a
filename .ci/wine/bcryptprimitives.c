// Rust's standard library takes random numbers from this library, which Wine 8 does not have.
#include <stddef.h>

__declspec(dllimport) unsigned char SystemFunction036(void *buffer, unsigned long size);

__declspec(dllexport) int ProcessPrng(unsigned char *buffer, size_t size)
{
    return SystemFunction036(buffer, size);
}
