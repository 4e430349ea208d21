/* The reductions of many float32 arrays, each read from memory once (twice with magnitudes).
 *
 * Plain C99 without Python's headers: `compiled_reductions.py` loads it with ctypes, and
 * `reductions.py` has the slower twin in torch for where no compiler was at hand.
 */
#include <math.h>
#include <stdint.h>

#define LANES 16  /* independent sums, so that the compiler may use whole vector registers */

#if defined(__x86_64__) && defined(__gnu_linux__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif

/* As COLUMNS in compiled_reductions.py; those of magnitudes come after in the same order. */
enum { MIN, MAX, MEAN, STD, VARIANCE, SUM, L1, L2, NUM_KINDS };

typedef struct {
    double min, max, sum, squares, spread;  /* spread: squares around the mean */
} Statistics;

typedef struct {
    float low, high;
    double sum, squares;
} Lane;

/* Sums are of differences to the first element. It is one of those that differ from the mean by
 * what the spread says, so even 1e7 nearly equal elements lose no more than seven of sixteen
 * digits. A NaN among the elements is one in the sum of squares, and nothing else is. */
static inline __attribute__((always_inline)) Statistics
reduce(const float *values, int64_t count, int magnitudes) {
    float low[LANES], high[LANES];
    double sum[LANES], squares[LANES];
    const float first = magnitudes ? fabsf(values[0]) : values[0];
    const double shift = isfinite(first) ? first : 0.0;
    for (int lane = 0; lane < LANES; lane++) {
        low[lane] = INFINITY;
        high[lane] = -INFINITY;
        sum[lane] = squares[lane] = 0.0;
    }
    const int64_t whole = count - count % LANES;
    for (int64_t at = 0; at < whole; at += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            const float value = magnitudes ? fabsf(values[at + lane]) : values[at + lane];
            const double difference = value - shift;
            low[lane] = value < low[lane] ? value : low[lane];
            high[lane] = value > high[lane] ? value : high[lane];
            sum[lane] += difference;
            squares[lane] += difference * difference;
        }
    Lane all = {low[0], high[0], sum[0], squares[0]};
    for (int lane = 1; lane < LANES; lane++) {
        all.low = fminf(all.low, low[lane]);
        all.high = fmaxf(all.high, high[lane]);
        all.sum += sum[lane];
        all.squares += squares[lane];
    }
    for (int64_t at = whole; at < count; at++) {
        const float value = magnitudes ? fabsf(values[at]) : values[at];
        const double difference = value - shift;
        all.low = fminf(all.low, value);
        all.high = fmaxf(all.high, value);
        all.sum += difference;
        all.squares += difference * difference;
    }
    if (isnan(all.squares)) return (Statistics){NAN, NAN, NAN, NAN, NAN};
    if (isinf(all.squares)) return (Statistics){all.low, all.high, all.sum, INFINITY, NAN};
    const double spread = all.squares - all.sum * all.sum / count;
    const double from_zero = all.squares + 2 * shift * all.sum + shift * shift * count;
    return (Statistics){
        all.low, all.high, all.sum + shift * count,
        from_zero > 0 ? from_zero : 0, spread > 0 ? spread : 0,
    };
}

FOR_EVERY_PROCESSOR
static void reduce_values(const float *values, int64_t count, Statistics *found) {
    *found = reduce(values, count, 0);
}

FOR_EVERY_PROCESSOR
static void reduce_magnitudes(const float *values, int64_t count, Statistics *found) {
    *found = reduce(values, count, 1);
}

static double column(int32_t kind, const Statistics *found, int64_t count) {
    const double variance = count > 1 ? found->spread / (count - 1) : NAN;
    switch (kind) {
        case MIN: return found->min;
        case MAX: return found->max;
        case MEAN: return found->sum / count;
        case STD: return sqrt(variance);
        case VARIANCE: return variance;
        case L2: return sqrt(found->squares);
        default: return found->sum;
    }
}

static int is_of_magnitudes(int32_t code) { return code >= NUM_KINDS || code == L1; }

/* `matrix` is [num_arrays, num_columns]; `columns` are kinds, plus NUM_KINDS for magnitudes. */
void trackside_reduce(int64_t num_arrays, const float *const *arrays, const int64_t *counts,
                      int64_t num_columns, const int32_t *columns, double *matrix) {
    int needs[2] = {0, 0};
    for (int64_t at = 0; at < num_columns; at++) needs[is_of_magnitudes(columns[at])] = 1;
    for (int64_t row = 0; row < num_arrays; row++) {
        Statistics found[2];
        if (needs[0]) reduce_values(arrays[row], counts[row], &found[0]);
        if (needs[1]) reduce_magnitudes(arrays[row], counts[row], &found[1]);
        for (int64_t at = 0; at < num_columns; at++)
            *matrix++ = column(columns[at] % NUM_KINDS, &found[is_of_magnitudes(columns[at])],
                               counts[row]);
    }
}
