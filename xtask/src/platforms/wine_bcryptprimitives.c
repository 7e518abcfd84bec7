/* bcryptprimitives.dll for Wine before 8.13, which has none: Rust's standard library reads random numbers with it. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length)
{
    while (length > 0) {
        ULONG part = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!RtlGenRandom(buffer, part)) {
            ExitProcess(1);
        }
        buffer += part;
        length -= part;
    }
    return TRUE;
}
