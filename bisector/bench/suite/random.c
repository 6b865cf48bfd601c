/* Numbers that follow from a seed, the same on every machine. */
#include "suite.h"

unsigned random_below(uint64_t *state, unsigned limit)
{
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((mixed ^ mixed >> 31) % limit);
}
