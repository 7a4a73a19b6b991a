// Rust's standard library gets random numbers from this library, which Wine 8 does not provide.
#include <stddef.h>

__declspec(dllimport) unsigned char SystemFunction036(void *buffer, unsigned long size);

__declspec(dllexport) int ProcessPrng(unsigned char *buffer, size_t size)
{
    return SystemFunction036(buffer, size);
}
