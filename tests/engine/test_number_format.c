// test_number_format.c: the conversions of f16, for every one of its numbers, and the table of formats.
#include "tests/support/test.h"
#include "f16.h"
#include "number_format.h"

// The definition: IEEE 754, section 3.4.
static double value_of(uint16_t bits) {
    const int exponent = bits >> 10 & 0x1F;
    const double fraction = (bits & 0x3FF) / 1024.0;
    const double magnitude = exponent == 0x1F ? (fraction == 0 ? INFINITY : NAN)
                             : exponent == 0  ? ldexp(fraction, -14)
                                              : ldexp(1 + fraction, exponent - 15);
    return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(test_f16_is_widened) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const double expected = value_of((uint16_t)bits);
        const double wide = (double)sm_f16_widen((uint16_t)bits);
        if (isnan(expected)) {
            assert_true(isnan(wide));
            assert_true(isnan(sm_f16_widen(sm_f16_round((float)wide))));
            continue;
        }
        assert_true(wide == expected && !signbit(wide) == !signbit(expected));
        assert_int_equal(sm_f16_round((float)wide), bits);
    }
    assert_true(isnan(sm_f16_widen(sm_f16_round(nanf("1")))));
}

// Between two neighbours, the middle rounds to the even one; values just off the middle round to the nearer one.
TEST(test_f16_is_rounded) {
    for (uint16_t bits = 0; bits < 0x7C00; bits++) {
        const uint16_t next = (uint16_t)(bits + 1);
        const float above = next == 0x7C00 ? 65536 : (float)value_of(next);
        const float middle = ((float)value_of(bits) + above) / 2;
        assert_int_equal(sm_f16_round(middle), bits & 1 ? next : bits);
        assert_int_equal(sm_f16_round(nextafterf(middle, 0)), bits);
        assert_int_equal(sm_f16_round(nextafterf(middle, INFINITY)), next);
        assert_int_equal(sm_f16_round(-middle), 0x8000 | (bits & 1 ? next : bits));
    }
    assert_int_equal(sm_f16_round(1e10f), 0x7C00);
    assert_int_equal(sm_f16_round(-INFINITY), 0xFC00);
    assert_int_equal(sm_f16_round(1e-30f), 0);
    assert_int_equal(sm_f16_round(-0.0f), 0x8000);
}

TEST(test_table) {
    const sm_dtype floats[] = {SM_F32, SM_BF16, SM_F16};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        const sm_number_format *f = sm_dtype_format(floats[i]);
        const float just[] = {1, (float)(1 + 2 * f->unit_roundoff), (float)f->largest_finite, (float)f->least_normal};
        for (size_t k = 0; k < sizeof just / sizeof just[0]; k++) {
            double stored = 0;
            float read = 0;
            f->round(1, &just[k], &stored);
            f->widen(1, &stored, &read);
            assert_true(read == just[k]);
        }
        float between = (float)(1 + f->unit_roundoff);
        sm_dtype_round_trip(floats[i], 1, &between);
        assert_true(floats[i] == SM_F32 || between == 1);
        assert_int_equal(sm_dtype_is_narrow(floats[i]), floats[i] != SM_F32);
    }
    assert_true(sm_precision_roundoff((sm_precision){SM_F32, SM_PRODUCTS_TF32}) == 0x1p-11);
    assert_true(sm_precision_is_rounded((sm_precision){SM_F16, SM_PRODUCTS_PLAIN}));
    assert_false(sm_precision_is_rounded((sm_precision){SM_F32, SM_PRODUCTS_TF32X3}));
}
