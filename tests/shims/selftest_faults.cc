// Misuse of the collectives, and the faults that a test can plant.
#include "selftest.h"
void test_faults() {}
