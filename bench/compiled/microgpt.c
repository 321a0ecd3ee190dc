/* One training step of microgpt, written by hand: the mark for compiled code.
 *
 * float32, one document of T <= 16 positions, 16 channels, 4 heads of width 4, 64 hidden numbers,
 * 27 tokens; forward, backward and Adam. The one idea: 16 channels are one vector register, so
 * activations are T registers, and nothing is ever masked by position or padded to a length.
 *
 * - Products are tiles of up to 8 rows by up to 4 registers. Weights are kept (in, out); the
 *   backward pass reads (out, in) copies that are turned in registers at the start of the step.
 * - Attention packs four keys into one register, lane 4 * head + key % 4, so one exp serves four
 *   keys of all heads.
 * - A weight's gradient goes from the tile's registers straight into Adam and is never stored.
 *
 * GCC's vector extensions, with intrinsics of AVX-512 where those have no word. Not reentrant.
 */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { V = 27, VP = 2, BLOCK = 16, C = 16, F = 64, D = 4, QKV = 3 };
enum { STORE, ADD, ADAM };

typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16 __attribute__((vector_size(64)));
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define LANES(a, b, c, d) \
    (i16){a, b, c, d, a + 4, b + 4, c + 4, d + 4, \
          a + 8, b + 8, c + 8, d + 8, a + 12, b + 12, c + 12, d + 12}
#define LANES_F(a, b, c, d) (v16){a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d}
#define SWAP1 LANES(1, 0, 3, 2)
#define SWAP2 LANES(2, 3, 0, 1)
static const float EPS = 1e-5f;

typedef struct {
    v16 wte[V], wpe[BLOCK], head[C][VP], qkv[C][QKV], proj[C], fc1[C][4], fc2[F];
} Weights;
enum { REGISTERS = sizeof(Weights) / sizeof(v16) };

static Weights w, m1, m2;      /* parameters, first and second moments */
static v16 d_wte[V];           /* the only gradient that is gathered in memory */
static v16 t_head[VP * 16], t_qkv[48], t_proj[C], t_fc1[F], t_fc2[C][4]; /* turned */
static int64_t step_count;
static float beta1, beta2, adam_eps;
static float rate, scale2;     /* lr / (1 - beta1^t), 1 / (1 - beta2^t) */

INLINE v16 splat(float x) { return (v16){} + x; }

INLINE v16 larger(v16 a, v16 b) { return (v16)_mm512_max_ps((__m512)a, (__m512)b); }

/* Square root and quotient: as IEEE says, or an estimate and one step of Newton. */
#ifdef __FAST_MATH__
INLINE v16 inverse_root(v16 x) {
    v16 y = (v16)_mm512_rsqrt14_ps((__m512)x);
    return y * (1.5f - 0.5f * x * y * y);
}
INLINE v16 root(v16 x) { return x * inverse_root(larger(x, splat(1e-37f))); }
INLINE v16 quotient(v16 a, v16 b) {
    v16 y = (v16)_mm512_rcp14_ps((__m512)b);
    return a * (y * (2.0f - b * y));
}
#else
INLINE v16 root(v16 x) { return (v16)_mm512_sqrt_ps((__m512)x); }
INLINE v16 inverse_root(v16 x) { return 1.0f / root(x); }
INLINE v16 quotient(v16 a, v16 b) { return a / b; }
#endif

/* Sums of the four lanes of each group, in each lane of the group. */
INLINE v16 sum4(v16 x) {
    x += __builtin_shuffle(x, SWAP1);
    return x + __builtin_shuffle(x, SWAP2);
}

INLINE v16 max4(v16 x) {
    x = larger(x, __builtin_shuffle(x, SWAP1));
    return larger(x, __builtin_shuffle(x, SWAP2));
}

/* Groups of four and of eight exchanged. */
#define TURN4 (i16){4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}
#define TURN8 (i16){8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}

/* The sum of all lanes, in each lane. */
INLINE v16 sum16(v16 x) {
    x = sum4(x);
    x += __builtin_shuffle(x, TURN4);
    return x + __builtin_shuffle(x, TURN8);
}

INLINE v16 max16(v16 x) {
    x = max4(x);
    x = larger(x, __builtin_shuffle(x, TURN4));
    return larger(x, __builtin_shuffle(x, TURN8));
}

/* e^x for x <= 0: 2^n times the Taylor polynomial of degree 6 on |r| <= ln(2) / 2. */
INLINE v16 exp_(v16 x) {
    x = larger(x, splat(-87.0f)); /* so that r stays small */
    v16 n = (v16)_mm512_roundscale_ps((__m512)(x * 1.44269504f), 0);
    v16 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    v16 p = splat(1.0f / 720);
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return (v16)_mm512_scalef_ps((__m512)p, (__m512)n);
}

/* Kingma and Ba 2015, algorithm 1. */
INLINE v16 adam(v16 x, v16 *a, v16 *b, v16 g) {
    *a = *a * beta1 + g * (1 - beta1);
    *b = *b * beta2 + g * g * (1 - beta2);
    return x - quotient(rate * *a, root(*b * scale2) + adam_eps);
}

INLINE void update(v16 *x, v16 g) {
    long i = x - (v16 *)&w;
    *x = adam(*x, (v16 *)&m1 + i, (v16 *)&m2 + i, g);
}

/* R rows of c = a b: a(r, k) lies at a[r * ar + k * ak], b and c have N registers a row. */
INLINE void tile(const int R, const int N, const int how, int depth,
                 const float *a, int ar, int ak, const v16 *b, v16 *c) {
    v16 sum[8][4];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int j = 0; j < N; j++) sum[r][j] = how == ADD ? c[r * N + j] : (v16){};
    for (int k = 0; k < depth; k++)
        UNROLL for (int r = 0; r < R; r++)
            UNROLL for (int j = 0; j < N; j++) sum[r][j] += a[r * ar + k * ak] * b[k * N + j];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int j = 0; j < N; j++) {
            if (how == ADAM) update(&c[r * N + j], sum[r][j]);
            else c[r * N + j] = sum[r][j];
        }
}

INLINE void product(const int N, const int how, int rows, int depth,
                    const float *a, int ar, int ak, const v16 *b, v16 *c) {
    const int most = N <= 2 ? 8 : 4;
    int r = 0;
    for (; r + most <= rows; r += most) tile(most, N, how, depth, a + r * ar, ar, ak, b, c + r * N);
    if (most == 8 && rows - r >= 4) {
        tile(4, N, how, depth, a + r * ar, ar, ak, b, c + r * N);
        r += 4;
    }
    switch (rows - r) {
    case 3: tile(3, N, how, depth, a + r * ar, ar, ak, b, c + r * N); break;
    case 2: tile(2, N, how, depth, a + r * ar, ar, ak, b, c + r * N); break;
    case 1: tile(1, N, how, depth, a + r * ar, ar, ak, b, c + r * N); break;
    }
}

/* y (T, N) = x (T, K) times the weights (K, N); also the way back, with turned weights. */
INLINE void forward(const int N, const int how, int T, int K, const v16 *x, const v16 *b, v16 *y) {
    product(N, how, T, K, (const float *)x, K, 1, b, y);
}

/* The weights (K, N) take Adam's step along x' g, x (T, K), g (T, N). */
INLINE void learn(const int N, int T, int K, const v16 *x, const v16 *g, v16 *weights) {
    product(N, ADAM, K, T, (const float *)x, 1, K, g, weights);
}

/* A square of 16 by 16: row i of the result has lane i of each row. */
INLINE void turn(const v16 *in, int row, v16 *out, int out_row) {
    v16 a[16], b[16];
    UNROLL for (int i = 0; i < 16; i++) a[i] = in[i * row];
    UNROLL for (int i = 0; i < 16; i += 2) { /* two lanes of two rows, then four of four ... */
        b[i] = __builtin_shuffle(a[i], a[i + 1], (i16){0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30});
        b[i + 1] = __builtin_shuffle(a[i], a[i + 1], (i16){1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31});
    }
    UNROLL for (int i = 0; i < 16; i += 4)
        UNROLL for (int j = i; j < i + 2; j++) {
            a[j] = __builtin_shuffle(b[j], b[j + 2], (i16){0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29});
            a[j + 2] = __builtin_shuffle(b[j], b[j + 2], (i16){2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31});
        }
    UNROLL for (int i = 0; i < 16; i += 8)
        UNROLL for (int j = i; j < i + 4; j++) {
            b[j] = __builtin_shuffle(a[j], a[j + 4], (i16){0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27});
            b[j + 4] = __builtin_shuffle(a[j], a[j + 4], (i16){4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31});
        }
    UNROLL for (int j = 0; j < 8; j++) {
        out[j * out_row] = __builtin_shuffle(b[j], b[j + 8], (i16){0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23});
        out[(j + 8) * out_row] = __builtin_shuffle(b[j], b[j + 8], (i16){8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31});
    }
}

static void turn_weights(void) {
    for (int i = 0; i < VP; i++) turn(&w.head[0][i], VP, t_head + 16 * i, 1);
    for (int i = 0; i < QKV; i++) turn(&w.qkv[0][i], QKV, t_qkv + 16 * i, 1);
    for (int i = 0; i < 4; i++) turn(&w.fc1[0][i], 4, t_fc1 + 16 * i, 1);
    for (int i = 0; i < 4; i++) turn(w.fc2 + 16 * i, 1, &t_fc2[0][i], 4);
    turn(w.proj, 1, t_proj, 1);
}

/* h = x r, r = 1 / sqrt(mean(x^2) + eps) in each lane. */
INLINE void norm(int T, const v16 *x, v16 *h, v16 *r) {
    for (int t = 0; t < T; t++) {
        r[t] = inverse_root(sum16(x[t] * x[t]) * (1.0f / C) + EPS);
        h[t] = x[t] * r[t];
    }
}

INLINE v16 norm_back(v16 h, v16 r, v16 g) { return r * (g - h * (sum16(g * h) * (1.0f / C))); }

/* Four registers of products: their sums within groups, lane 4 * head + i for register i. */
INLINE v16 gather4(const v16 *p) {
    v16 a = __builtin_shuffle(p[0], p[1], LANES(0, 1, 16, 17))
          + __builtin_shuffle(p[0], p[1], LANES(2, 3, 18, 19));
    v16 b = __builtin_shuffle(p[2], p[3], LANES(0, 1, 16, 17))
          + __builtin_shuffle(p[2], p[3], LANES(2, 3, 18, 19));
    return __builtin_shuffle(a, b, LANES(0, 2, 16, 18)) + __builtin_shuffle(a, b, LANES(1, 3, 17, 19));
}

/* Lane 4 * head + i of each group, in the whole group. */
INLINE v16 spread(v16 x, int i) {
    switch (i) {
    case 0: return __builtin_shuffle(x, LANES(0, 0, 0, 0));
    case 1: return __builtin_shuffle(x, LANES(1, 1, 1, 1));
    case 2: return __builtin_shuffle(x, LANES(2, 2, 2, 2));
    default: return __builtin_shuffle(x, LANES(3, 3, 3, 3));
    }
}

/* a_t = softmax(q_t k_s / 2 : s <= t) v_s. Rows of qkv past the last may hold anything finite:
 * their weight is 0. */
INLINE void attend(int T, const v16 (*qkv)[QKV], v16 (*p)[4], v16 *out) {
    const v16 hidden[4] = {
        LANES_F(0, -1e30f, -1e30f, -1e30f), LANES_F(0, 0, -1e30f, -1e30f),
        LANES_F(0, 0, 0, -1e30f), LANES_F(0, 0, 0, 0)};
    for (int t = 0; t < T; t++) {
        const int last = t / 4;
        v16 q = qkv[t][0] * 0.5f, top = splat(-1e30f), total = {}, sum = {};
        for (int g = 0; g <= last; g++) {
            v16 x[4];
            UNROLL for (int i = 0; i < 4; i++) x[i] = q * qkv[4 * g + i][1];
            p[t][g] = gather4(x);
            if (g == last) p[t][g] += hidden[t % 4];
            top = larger(top, p[t][g]);
        }
        top = max4(top);
        for (int g = 0; g <= last; g++) {
            v16 e = exp_(p[t][g] - top);
            p[t][g] = e;
            total += e;
            UNROLL for (int i = 0; i < 4; i++) sum += spread(e, i) * qkv[4 * g + i][2];
        }
        v16 scale = quotient(splat(1), sum4(total));
        for (int g = 0; g <= last; g++) p[t][g] *= scale;
        out[t] = sum * scale;
    }
}

/* The cotangent of qkv from that of the attended values. */
INLINE void attend_back(int T, const v16 (*qkv)[QKV], v16 (*p)[4], const v16 *out,
                        const v16 *d_out, v16 (*d)[QKV]) {
    memset(d, 0, sizeof(v16) * QKV * ((T + 3) & ~3));
    for (int t = 0; t < T; t++) {
        v16 q = qkv[t][0] * 0.5f, mean = sum4(d_out[t] * out[t]), dq = {};
        for (int g = 0; g <= t / 4; g++) {
            v16 x[4];
            UNROLL for (int i = 0; i < 4; i++) x[i] = d_out[t] * qkv[4 * g + i][2];
            v16 weight = p[t][g], ds = weight * (gather4(x) - mean);
            UNROLL for (int i = 0; i < 4; i++) {
                v16 dsi = spread(ds, i);
                dq += dsi * qkv[4 * g + i][1];
                d[4 * g + i][1] += dsi * q;
                d[4 * g + i][2] += spread(weight, i) * d_out[t];
            }
        }
        d[t][0] = dq * 0.5f;
    }
}

/* Mean of -log softmax at the targets; the logits become the cotangent. */
INLINE float cross_entropy(int T, const int32_t *targets, v16 (*logits)[VP]) {
    const i16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const float each = 1.0f / T;
    float loss = 0, product = 1; /* of at most 16 sums, each in [1, 27]: one logarithm for all */
    for (int t = 0; t < T; t++) {
        v16 a = logits[t][0], b = (v16)_mm512_mask_blend_ps(0xf800, (__m512)logits[t][1], (__m512)splat(-1e30f));
        v16 top = max16(larger(a, b));
        loss += top[0] - ((const float *)logits[t])[targets[t]];
        a = exp_(a - top);
        b = exp_(b - top);
        v16 total = sum16(a + b), scale = quotient(splat(each), total);
        product *= total[0];
        i16 hit_a = lane == targets[t], hit_b = lane + 16 == targets[t];
        logits[t][0] = a * scale - (v16)((i16)splat(each) & hit_a);
        logits[t][1] = b * scale - (v16)((i16)splat(each) & hit_b);
    }
    return (loss + logf(product)) * each;
}

/* One step on tokens[0 .. T], of which the first T are read and the last T are to be predicted. */
float microgpt_step(const int32_t *tokens, int32_t T, float lr) {
    static v16 e[16], x0[16], h1[16], qkv[16][QKV], p[16][4], out[16], x1[16], h2[16], a[16][4];
    static v16 x2[16], logits[16][VP], r0[16], r1[16], r2[16];
    static v16 d2[16], da[16][4], dh[16], d1[16], d_qkv[16][QKV];
#ifdef __FAST_MATH__
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040); /* denormal numbers are 0 */
#endif
    step_count++;
    rate = lr / (1 - pow(beta1, step_count));
    scale2 = 1 / (1 - pow(beta2, step_count));
    turn_weights();

    for (int t = 0; t < T; t++) e[t] = w.wte[tokens[t]] + w.wpe[t];
    norm(T, e, x0, r0);
    norm(T, x0, h1, r1);
    forward(QKV, STORE, T, C, h1, w.qkv[0], qkv[0]);
    attend(T, qkv, p, out);
    memcpy(x1, x0, sizeof(v16) * T);
    forward(1, ADD, T, C, out, w.proj, x1);
    norm(T, x1, h2, r2);
    forward(4, STORE, T, C, h2, w.fc1[0], a[0]);
    for (int t = 0; t < T; t++) UNROLL for (int j = 0; j < 4; j++) a[t][j] = larger(a[t][j], (v16){});
    memcpy(x2, x1, sizeof(v16) * T);
    forward(1, ADD, T, F, a[0], w.fc2, x2);
    forward(VP, STORE, T, C, x2, w.head[0], logits[0]);
    float loss = cross_entropy(T, tokens + 1, logits);

    forward(1, STORE, T, 16 * VP, logits[0], t_head, d2);
    learn(VP, T, C, x2, logits[0], w.head[0]);
    forward(4, STORE, T, C, d2, t_fc2[0], da[0]);
    for (int t = 0; t < T; t++)
        UNROLL for (int j = 0; j < 4; j++) da[t][j] = (v16)((i16)da[t][j] & (a[t][j] > 0));
    learn(1, T, F, a[0], d2, w.fc2);
    forward(1, STORE, T, F, da[0], t_fc1, dh);
    learn(4, T, C, h2, da[0], w.fc1[0]);
    for (int t = 0; t < T; t++) d1[t] = d2[t] + norm_back(h2[t], r2[t], dh[t]);
    forward(1, STORE, T, C, d1, t_proj, dh);
    learn(1, T, C, out, d1, w.proj);
    attend_back(T, qkv, p, out, dh, d_qkv);
    forward(1, STORE, T, 16 * QKV, d_qkv[0], t_qkv, dh);
    learn(QKV, T, C, h1, d_qkv[0], w.qkv[0]);

    memset(d_wte, 0, sizeof d_wte);
    for (int t = 0; t < T; t++) {
        v16 d = norm_back(x0[t], r0[t], d1[t] + norm_back(h1[t], r1[t], dh[t]));
        d_wte[tokens[t]] += d;
        update(&w.wpe[t], d);
    }
    for (int t = T; t < BLOCK; t++) update(&w.wpe[t], (v16){});
    for (int i = 0; i < V; i++) update(&w.wte[i], d_wte[i]);
#ifdef __FAST_MATH__
    _mm_setcsr(mode);
#endif
    return loss;
}

/* (out, in) as it is kept elsewhere -> (in, out) in rows of `width` numbers. */
static const float *load(const float *from, int out, int in, v16 *to, int width) {
    for (int o = 0; o < out; o++)
        for (int i = 0; i < in; i++) ((float *)to)[i * width + o] = from[o * in + i];
    return from + out * in;
}

/* Start over from 4,192 numbers in the order wte, wpe, head, qkv, proj, fc1, fc2, each (out, in). */
void microgpt_reset(const float *from, float b1, float b2, float eps) {
    memset(&w, 0, sizeof w);
    memset(&m1, 0, sizeof m1);
    memset(&m2, 0, sizeof m2);
    memcpy(w.wte, from, sizeof w.wte);
    memcpy(w.wpe, from + V * C, sizeof w.wpe);
    from = load(from + (V + BLOCK) * C, V, C, w.head[0], 16 * VP);
    from = load(from, 3 * C, C, w.qkv[0], 16 * QKV);
    from = load(from, C, C, w.proj, C);
    from = load(from, F, C, w.fc1[0], F);
    load(from, C, F, w.fc2, C);
    step_count = 0;
    beta1 = b1, beta2 = b2, adam_eps = eps;
}

/* Many steps in one call: document s is tokens[start[s]] .. tokens[start[s] + length[s]]. */
void microgpt_train(const int32_t *tokens, const int32_t *start, const int32_t *length,
                    const float *lr, int32_t steps, float *losses) {
    for (int s = 0; s < steps; s++) losses[s] = microgpt_step(tokens + start[s], length[s], lr[s]);
}
