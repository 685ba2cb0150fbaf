// A camera's picture becomes one slot of a model's input: colour, resize, padding, scaling and layout in one pass.
//
// The reference is perception/preprocess.py, which resizes with OpenCV. Its bilinear arithmetic for 8-bit pictures is
// repeated here in integers: weights of 11 bits, rows kept with 7 fractional bits, the sum rounded at the end.
// The source is compiled on the device at run time, so it includes nothing. With -DHOST it is a C++ library whose
// functions of the same names run every thread of a launch one after another.

#ifdef HOST

struct Triple {
    unsigned int x, y, z;
};
static thread_local Triple gridDim, blockDim, blockIdx, threadIdx;

// The shape of the next launch of the calling thread; without it the next launch covers the input.
extern "C" void set_launch(unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                           unsigned int block_y, unsigned int block_z)
{
    gridDim = {grid_x, grid_y, grid_z};
    blockDim = {block_x, block_y, block_z};
}

struct Launch {
    Launch(int width, int height)
    {
        if (gridDim.x == 0) {
            gridDim = {1, 1, 1};
            blockDim = {static_cast<unsigned int>(width), static_cast<unsigned int>(height), 1};
        }
        blockIdx = threadIdx = {0, 0, 0};
    }
    ~Launch() { gridDim = {0, 0, 0}; }
};

#define KERNEL
#define DEVICE static inline
#define EACH_THREAD(width, height)                                              \
    Launch launch(width, height);                                               \
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)                  \
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)              \
            for (threadIdx.y = 0; threadIdx.y < blockDim.y; ++threadIdx.y)      \
                for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x)

#else

#define KERNEL __global__
#define DEVICE static __device__ __forceinline__
#define EACH_THREAD(width, height)

#endif

enum { FLOAT32 = 0, FLOAT16 = 1, UINT8 = 2 };

// One pixel, each channel 0..255.
struct Pixel {
    int blue, green, red;
};

// The model's input, (3, height, width) or (height, width, 3), and where the resized picture lies in it.
struct Slot {
    void *target;
    int height, width, top, left, inner_height, inner_width;
    int nchw, dtype, rgb, pad_value;
    float factor[3], shift[3];
};

struct BgrPicture {
    const unsigned char *pixels;
    int pitch, height, width;

    DEVICE Pixel at(const BgrPicture &picture, int y, int x)
    {
        const unsigned char *pixel = picture.pixels + static_cast<long long>(y) * picture.pitch + 3 * x;
        return {pixel[0], pixel[1], pixel[2]};
    }
};

struct Nv12Picture {
    const unsigned char *luma, *chroma;
    int pitch, chroma_pitch, height, width, matrix;

    DEVICE int clamped(int value) { return value < 0 ? 0 : value > 255 ? 255 : value; }

    // Limited range, 20 fractional bits; a 2x2 block shares its chroma, as in cv2.cvtColor. An odd last column or row
    // has a chroma sample of its own.
    DEVICE Pixel at(const Nv12Picture &picture, int y, int x)
    {
        const unsigned char *pair =
            picture.chroma + static_cast<long long>(y / 2) * picture.chroma_pitch + x / 2 * 2;
        const int above_black = picture.luma[static_cast<long long>(y) * picture.pitch + x] - 16;
        const int light = above_black < 0 ? 0 : above_black;
        const int u = pair[0] - 128, v = pair[1] - 128;
        const int half = 1 << 19;
        if (picture.matrix == 709) {
            const int base = light * 1220945 + half;
            return {clamped((base + 2215014 * u) >> 20), clamped((base - 223608 * u - 558795 * v) >> 20),
                    clamped((base + 1879825 * v) >> 20)};
        }
        const int base = light * 1220542 + half;
        return {clamped((base + 2116026 * u) >> 20), clamped((base - 409993 * u - 852492 * v) >> 20),
                clamped((base + 1673527 * v) >> 20)};
    }
};

// Two neighbours along one axis and the weight of the second in 1/2048.
struct Tap {
    int first, second, weight;
};

// Pixel centres lie at half integers: position p of `inner` is ((2 p + 1) source / inner - 1) / 2 of `source`.
DEVICE Tap tap(int position, int inner, int source)
{
    const int step = 2 * inner;
    const int numerator = (2 * position + 1) * source - inner;
    int whole = numerator / step, rest = numerator % step;
    if (rest < 0) {
        rest += step;
        whole -= 1;
    }
    int weight = rest * 2048 / step;
    const int twice_left = 2 * (rest * 2048 % step);
    if (twice_left > step || (twice_left == step && (weight & 1)))
        weight += 1;
    const int last = source - 1;
    const int first = whole < 0 ? 0 : whole > last ? last : whole;
    const int second = whole + 1 > last ? last : whole + 1;
    return {first, second, weight};
}

DEVICE int blend(int top_left, int top_right, int bottom_left, int bottom_right, int across, int down)
{
    const int top = top_left * (2048 - across) + top_right * across;
    const int bottom = bottom_left * (2048 - across) + bottom_right * across;
    return (((2048 - down) * (top >> 4) >> 16) + (down * (bottom >> 4) >> 16) + 2) >> 2;
}

// Nearest half, ties to even; what is too large becomes infinity.
DEVICE unsigned short half_of(float value)
{
    union {
        float value;
        unsigned int bits;
    } number;
    number.value = value;
    const unsigned int sign = number.bits >> 16 & 0x8000u;
    unsigned int magnitude = number.bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return static_cast<unsigned short>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u)
        return static_cast<unsigned short>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        // Below the smallest normal half: adding 0.5 leaves multiples of 2^-24, rounded, in the low bits.
        number.bits = magnitude;
        number.value += 0.5f;
        return static_cast<unsigned short>(sign | (number.bits - 0x3f000000u));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<unsigned short>(sign | (magnitude - 0x38000000u) >> 13);
}

// Nearest integer in 0..255, ties to even: a float of 2^23 times 1.5 has no fractional bits left.
DEVICE unsigned char byte_of(float value)
{
    const float limited = value > 0.0f ? (value < 255.0f ? value : 255.0f) : 0.0f;
    return static_cast<unsigned char>(limited + 12582912.0f - 12582912.0f);
}

DEVICE void store(const Slot &slot, int channel, int y, int x, int value)
{
    const long long pixel = static_cast<long long>(y) * slot.width + x;
    const long long index = slot.nchw ? channel * static_cast<long long>(slot.height) * slot.width + pixel
                                      : pixel * 3 + channel;
    const float scaled = static_cast<float>(value) * slot.factor[channel] + slot.shift[channel];
    if (slot.dtype == FLOAT32)
        static_cast<float *>(slot.target)[index] = scaled;
    else if (slot.dtype == FLOAT16)
        static_cast<unsigned short *>(slot.target)[index] = half_of(scaled);
    else
        static_cast<unsigned char *>(slot.target)[index] = byte_of(scaled);
}

// One thread writes the three channels of one pixel of the input; neighbours along x are neighbours in memory.
template <typename Picture>
DEVICE void prepare(const Picture &picture, const Slot &slot)
{
    const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
    if (x >= slot.width || y >= slot.height)
        return;
    const int inner_x = x - slot.left, inner_y = y - slot.top;
    int blue = slot.pad_value, green = slot.pad_value, red = slot.pad_value;
    if (inner_x >= 0 && inner_x < slot.inner_width && inner_y >= 0 && inner_y < slot.inner_height) {
        const Tap across = tap(inner_x, slot.inner_width, picture.width);
        const Tap down = tap(inner_y, slot.inner_height, picture.height);
        const Pixel a = Picture::at(picture, down.first, across.first);
        const Pixel b = Picture::at(picture, down.first, across.second);
        const Pixel c = Picture::at(picture, down.second, across.first);
        const Pixel d = Picture::at(picture, down.second, across.second);
        blue = blend(a.blue, b.blue, c.blue, d.blue, across.weight, down.weight);
        green = blend(a.green, b.green, c.green, d.green, across.weight, down.weight);
        red = blend(a.red, b.red, c.red, d.red, across.weight, down.weight);
    }
    store(slot, 0, y, x, slot.rgb ? red : blue);
    store(slot, 1, y, x, green);
    store(slot, 2, y, x, slot.rgb ? blue : red);
}

// A BGR picture of (source_height, source_width), 8 bits a channel, rows `pitch` bytes apart.
extern "C" KERNEL void prepare_bgr(
    const unsigned char *picture, int pitch, int source_height, int source_width,
    void *target, int height, int width, int top, int left, int inner_height, int inner_width,
    int nchw, int dtype, int rgb, int pad_value,
    float factor_0, float factor_1, float factor_2, float shift_0, float shift_1, float shift_2)
{
    const BgrPicture source = {picture, pitch, source_height, source_width};
    const Slot slot = {target, height, width, top, left, inner_height, inner_width, nchw, dtype, rgb, pad_value,
                       {factor_0, factor_1, factor_2}, {shift_0, shift_1, shift_2}};
    EACH_THREAD(width, height)
        prepare(source, slot);
}

// An NV12 picture: luma rows `pitch` bytes apart; below, rows of (U, V) pairs `chroma_pitch` bytes apart, half as many
// as the luma has, rounded up. `matrix` is 601 or 709.
extern "C" KERNEL void prepare_nv12(
    const unsigned char *luma, int pitch, const unsigned char *chroma, int chroma_pitch, int matrix,
    int source_height, int source_width,
    void *target, int height, int width, int top, int left, int inner_height, int inner_width,
    int nchw, int dtype, int rgb, int pad_value,
    float factor_0, float factor_1, float factor_2, float shift_0, float shift_1, float shift_2)
{
    const Nv12Picture source = {luma, chroma, pitch, chroma_pitch, source_height, source_width, matrix};
    const Slot slot = {target, height, width, top, left, inner_height, inner_width, nchw, dtype, rgb, pad_value,
                       {factor_0, factor_1, factor_2}, {shift_0, shift_1, shift_2}};
    EACH_THREAD(width, height)
        prepare(source, slot);
}
