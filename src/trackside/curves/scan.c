/* One pass over a buffer of TFRecords: checksums, boundaries, and the scalars of TensorBoard events.
 *
 * Plain C99 without Python's headers: `native.py` loads it with ctypes, and everything here has
 * a slower twin in Python (`records.py`, `decode.py`) for where no compiler was at hand.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HEADER 12
#define FOOTER 4
#define SLOTS (1 << 17)
#define MOST_PROBES 1024 /* for one tag: more are needed only by tags made to collide */

typedef struct {
    int64_t consumed;    /* bytes up to the end of the last record that could be read */
    int64_t num_scalars;
    int64_t num_others;  /* records left for the slow way */
    int64_t num_tags;
    int64_t lost_bytes;  /* damaged, and skipped */
    int64_t is_full;     /* an output array is full: call again from `consumed` */
    int64_t num_lost;    /* damaged records, and stretches that are no record */
} Totals;

typedef struct {
    int64_t scalars, others, tags;
} Room;

typedef struct {
    const uint8_t *at, *end;
} Bytes;

static uint32_t table[8][256];
static int has_instruction;

__attribute__((constructor)) static void prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        table[0][byte] = crc;
    }
    for (int row = 1; row < 8; row++)
        for (int byte = 0; byte < 256; byte++)
            table[row][byte] = table[row - 1][byte] >> 8 ^ table[0][table[row - 1][byte] & 255];
#if defined(__x86_64__)
    __builtin_cpu_init();
    has_instruction = __builtin_cpu_supports("sse4.2") != 0;
#endif
}

static uint64_t load64(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static uint32_t load32(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(const uint8_t *at, size_t size) {
    uint64_t crc = 0xFFFFFFFFu;
    for (; size >= 8; at += 8, size -= 8) crc = __builtin_ia32_crc32di(crc, load64(at));
    uint32_t rest = (uint32_t)crc;
    if (size & 4) rest = __builtin_ia32_crc32si(rest, load32(at)), at += 4;
    if (size & 2) rest = __builtin_ia32_crc32hi(rest, (uint16_t)(at[0] | at[1] << 8)), at += 2;
    if (size & 1) rest = __builtin_ia32_crc32qi(rest, *at);
    return ~rest;
}
#endif

static uint32_t crc_by_table(const uint8_t *at, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word = load64(at) ^ crc;
        crc = 0;
        for (int row = 7; row >= 0; row--, word >>= 8) crc ^= table[row][word & 255];
    }
    for (; size; at++, size--) crc = crc >> 8 ^ table[0][(crc ^ *at) & 255];
    return ~crc;
}

uint32_t trackside_crc32c(const uint8_t *at, size_t size) {
#if defined(__x86_64__)
    if (has_instruction) return crc_by_instruction(at, size);
#endif
    return crc_by_table(at, size);
}

static uint32_t masked(const uint8_t *at, size_t size) {
    uint32_t crc = trackside_crc32c(at, size);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static int is_header(const uint8_t *at) { return masked(at, 8) == load32(at + 8); }

/* Protocol buffers: fields one after the other. 0 when the bytes are no message. */

static int varint(Bytes *from, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        uint8_t byte = *from->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

static int field(Bytes *from, uint64_t *key, Bytes *content, uint64_t *number) {
    size_t size = 0;
    if (!varint(from, key)) return 0;
    switch (*key & 7) {
        case 0: return varint(from, number);
        case 1: size = 8; break;
        case 5: size = 4; break;
        case 2:
            if (!varint(from, number)) return 0;
            size = *number;
            break;
        default: return 0;
    }
    if (size > (size_t)(from->end - from->at)) return 0;
    content->at = from->at;
    content->end = from->at += size;
    return 1;
}

static double as_float(const uint8_t *at) {
    uint32_t bits = load32(at);
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static double as_double(const uint8_t *at) {
    uint64_t bits = load64(at);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

/* A TensorProto of one float or double. */
static int scalar_tensor(Bytes tensor, double *value) {
    uint64_t key, number, type = 0, holder = 0;
    Bytes content, data = {0, 0};
    while (tensor.at < tensor.end) {
        if (!field(&tensor, &key, &content, &number)) return 0;
        if (key == (1 << 3 | 0)) type = number;
        else if (key == (2 << 3 | 2)) { if (content.at != content.end) return 0; }
        else if (key == (4 << 3 | 2) || key == (5 << 3 | 2) || key == (5 << 3 | 5)
                 || key == (6 << 3 | 2) || key == (6 << 3 | 1)) {
            if (data.at) return 0;
            data = content;
            holder = key >> 3;
        } else return 0;
    }
    ptrdiff_t size = data.end - data.at;
    if (type == 1 && size == 4 && holder != 6) *value = as_float(data.at);
    else if (type == 2 && size == 8 && holder != 5) *value = as_double(data.at);
    else return 0;
    return 1;
}

/* Whether a SummaryMetadata is the scalars plugin's; -1 when it is no message. */
static int says_scalars(Bytes metadata) {
    uint64_t key, number;
    Bytes content;
    int is_named = 0;
    while (metadata.at < metadata.end) {
        if (!field(&metadata, &key, &content, &number)) return -1;
        if (key != (1 << 3 | 2)) continue;
        Bytes plugin = content;
        while (plugin.at < plugin.end) {
            if (!field(&plugin, &key, &content, &number)) return -1;
            if (key == (1 << 3 | 2))
                is_named = content.end - content.at == 7 && !memcmp(content.at, "scalars", 7);
        }
    }
    return is_named;
}

static int scalar_value(Bytes value, Bytes *tag, double *scalar) {
    uint64_t key, number;
    Bytes content, tensor = {0, 0};
    int is_simple = 0, is_plugin = 0;
    tag->at = tag->end = value.at;
    while (value.at < value.end) {
        if (!field(&value, &key, &content, &number)) return 0;
        switch (key) {
            case 1 << 3 | 2: *tag = content; break;
            case 2 << 3 | 5: *scalar = as_float(content.at); is_simple = 1; break;
            case 7 << 3 | 2: break;
            case 8 << 3 | 2: tensor = content; break;
            case 9 << 3 | 2: if ((is_plugin = says_scalars(content)) < 0) return 0; break;
            default: return 0;
        }
    }
    if (is_simple) return !tensor.at;
    return tensor.at && is_plugin && scalar_tensor(tensor, scalar);
}

typedef struct {
    const uint8_t *buffer;
    int64_t *tags; /* offset and size of each tag's first place */
    Totals *totals;
    Room room;
    int32_t *slots;
    int32_t *after; /* which tag came after each: most writers go round */
    int32_t last;
} Tags;

static int is_tag(const Tags *tags, int32_t number, Bytes tag) {
    const int64_t *known = tags->tags + 2 * (int64_t)number;
    return known[1] == tag.end - tag.at && !memcmp(tags->buffer + known[0], tag.at, known[1]);
}

static int64_t find_tag(Tags *tags, Bytes tag) {
    size_t size = tag.end - tag.at;
    uint32_t slot = (trackside_crc32c(tag.at, size) * 2654435761u) >> 15;
    for (int probes = 0;; slot = (slot + 1) & (SLOTS - 1)) {
        int32_t number = tags->slots[slot];
        if (number < 0) break;
        if (is_tag(tags, number, tag)) return number;
        if (++probes == MOST_PROBES) return -1;
    }
    int64_t number = tags->totals->num_tags;
    if (number >= tags->room.tags) return -1;
    tags->slots[slot] = (int32_t)number;
    tags->tags[2 * number] = tag.at - tags->buffer;
    tags->tags[2 * number + 1] = size;
    tags->after[number] = 0;
    tags->totals->num_tags++;
    return number;
}

static int64_t tag_number(Tags *tags, Bytes tag) {
    int64_t number = tags->last < 0 ? -1 : tags->after[tags->last];
    if (number < 0 || !is_tag(tags, (int32_t)number, tag)) {
        number = find_tag(tags, tag);
        if (number < 0) return number;
        if (tags->last >= 0) tags->after[tags->last] = (int32_t)number;
    }
    tags->last = (int32_t)number;
    return number;
}

typedef struct {
    int32_t *tag;
    int64_t *step;
    double *time, *value;
} Columns;

static int note(Tags *tags, Columns *columns, Bytes tag, int64_t step, double time, double value) {
    int64_t row = tags->totals->num_scalars, number = tag_number(tags, tag);
    if (row >= tags->room.scalars || number < 0) return 0;
    columns->tag[row] = (int32_t)number;
    columns->step[row] = step;
    columns->time[row] = time;
    columns->value[row] = value;
    tags->totals->num_scalars++;
    return 1;
}

/* What SummaryWriter.add_scalar writes, all sizes of one byte; answers as `note_event`. */
static int note_usual(Bytes event, Tags *tags, Columns *columns) {
    const uint8_t *at = event.at;
    uint64_t step = 0;
    if (event.end - at < 25 || at[0] != (1 << 3 | 1)) return 0;
    double time = as_double(at + 1);
    at += 9;
    if (*at == (2 << 3 | 0)) {
        Bytes rest = {at + 1, event.end};
        if (!varint(&rest, &step)) return 0;
        at = rest.at;
    }
    ptrdiff_t left = event.end - at;
    if (left < 11 || left > 129) return 0;
    if (at[0] != (5 << 3 | 2) || at[1] != left - 2 || at[2] != (1 << 3 | 2) || at[3] != left - 4
        || at[4] != (1 << 3 | 2) || at[5] != left - 11 || at[left - 5] != (2 << 3 | 5))
        return 0;
    Bytes tag = {at + 6, at + left - 5};
    return note(tags, columns, tag, (int64_t)step, time, as_float(at + left - 4)) ? 1 : -1;
}

/* 1: all its values are scalars and noted; 0: something else; -1: no room. */
static int note_event(Bytes event, Tags *tags, Columns *columns) {
    uint64_t key, number, step = 0;
    Bytes content, summary = {0, 0};
    double time = 0;
    while (event.at < event.end) {
        if (!field(&event, &key, &content, &number)) return 0;
        if (key == (1 << 3 | 1)) time = as_double(content.at);
        else if (key == (2 << 3 | 0)) step = number;
        else if (key == (5 << 3 | 2) && !summary.at) summary = content;
        else return 0;
    }
    Totals *totals = tags->totals;
    int64_t before = totals->num_scalars;
    while (summary.at < summary.end) {
        Bytes tag;
        double value;
        if (!field(&summary, &key, &content, &number) || key != (1 << 3 | 2)
            || !scalar_value(content, &tag, &value)) {
            totals->num_scalars = before;
            return 0;
        }
        if (!note(tags, columns, tag, (int64_t)step, time, value)) {
            totals->num_scalars = before;
            return -1;
        }
    }
    return totals->num_scalars > before;
}

/* `slots` is scratch of SLOTS and `after` of as many numbers as there is room for tags; `others` gets offset and size of each record's content. */
void trackside_scan_records(const uint8_t *buffer, int64_t size, const Room *room, int32_t *slots,
                            int32_t *after, int32_t *tag, int64_t *step, double *time,
                            double *value, int64_t *others, int64_t *tag_places, Totals *totals) {
    Tags tags = {buffer, tag_places, totals, *room, slots, after, -1};
    Columns columns = {tag, step, time, value};
    /* Headers seen to be right: a writer's records have few lengths. Length 1 is not one of row 0. */
    uint64_t sound[256][2] = {{1, 0}};
    int64_t at = 0;
    memset(totals, 0, sizeof *totals);
    memset(slots, 255, SLOTS * sizeof *slots);
    while (size - at >= HEADER) {
        uint64_t length = load64(buffer + at), checksum = load32(buffer + at + 8);
        uint64_t *known = sound[length & 255];
        if (known[0] != length || known[1] != checksum) {
            known[0] = length;
            known[1] = is_header(buffer + at) ? checksum : UINT64_MAX;
        }
        if (known[1] == UINT64_MAX) {
            int64_t next = at + 1;
            while (size - next >= HEADER && !is_header(buffer + next)) next++;
            if (size - next < HEADER) break; /* the next bytes to come may tell */
            totals->lost_bytes += next - at;
            totals->num_lost++;
            totals->consumed = at = next;
            continue;
        }
        if (length > (uint64_t)(size - at - HEADER) || (int64_t)length > size - at - HEADER - FOOTER) break;
        const uint8_t *content = buffer + at + HEADER;
        if (masked(content, length) != load32(content + length)) {
            totals->lost_bytes += HEADER + length + FOOTER;
            totals->num_lost++;
        } else {
            Bytes event = {content, content + length};
            int noted = note_usual(event, &tags, &columns);
            if (!noted) noted = note_event(event, &tags, &columns);
            if (noted < 0 && !at) noted = 0; /* too much for empty arrays: left for the slow way */
            if (noted < 0 || (!noted && totals->num_others >= room->others)) {
                totals->is_full = 1;
                return;
            }
            if (!noted) {
                others[2 * totals->num_others] = content - buffer;
                others[2 * totals->num_others + 1] = length;
                totals->num_others++;
            }
        }
        totals->consumed = at += HEADER + length + FOOTER;
    }
}

/* Rows ordered by tag, in their own order within each; `starts` has each tag's first row. */
void trackside_group(int64_t num_rows, const int32_t *tag, const int64_t *step, const double *time,
                     const double *value, int64_t *starts, int64_t *steps, double *times,
                     double *values) {
    for (int64_t row = 0; row < num_rows; row++) {
        int64_t to = starts[tag[row]]++;
        steps[to] = step[row];
        times[to] = time[row];
        values[to] = value[row];
    }
}

/* What stands for ranges of a curve's points, as `levels.chosen` in Python: of each range the first and the last point and the
 * least and greatest finite value, ascending. A level has six numbers: its width, its number of buckets, and the addresses of the
 * buckets' least and greatest values and of the points that have them. */
#define LEVEL 6

static int64_t put(int64_t *found, int64_t count, int64_t first, int64_t at) {
    return at < 0 || (count > first && found[count - 1] == at) ? count : (found[count] = at, count + 1);
}

#define DEFINE_CHOOSE(NAME, TYPE)                                                                  \
    static int64_t NAME(const TYPE *values, const int64_t *levels, int64_t num_levels,             \
                        int64_t num_ranges, const int64_t *begins, const int64_t *ends,            \
                        int64_t *found) {                                                          \
        int64_t count = 0;                                                                         \
        for (int64_t range = 0; range < num_ranges; range++) {                                     \
            int64_t at = begins[range], end = ends[range], low_at = -1, high_at = -1;              \
            TYPE low = __builtin_inff(), high = -__builtin_inff();                                 \
            const TYPE most = __builtin_inff();                                                    \
            if (at >= end) continue;                                                               \
            while (at < end) {                                                                     \
                const int64_t *level = 0;                                                          \
                for (int64_t next = 0; next < num_levels; next++) {                                \
                    const int64_t *it = levels + LEVEL * next;                                     \
                    if (at % it[0] || at + it[0] > end || at / it[0] >= it[1]) break;              \
                    level = it;                                                                    \
                }                                                                                  \
                if (level) {                                                                       \
                    int64_t bucket = at / level[0];                                                \
                    TYPE least = ((const TYPE *)(uintptr_t)level[2])[bucket];                      \
                    TYPE greatest = ((const TYPE *)(uintptr_t)level[3])[bucket];                   \
                    if (least < low) low = least, low_at = ((const uint32_t *)(uintptr_t)level[4])[bucket]; \
                    if (greatest > high)                                                           \
                        high = greatest, high_at = ((const uint32_t *)(uintptr_t)level[5])[bucket]; \
                    at += level[0];                                                                \
                    continue;                                                                      \
                }                                                                                  \
                int64_t stop = num_levels ? (at / levels[0] + 1) * levels[0] : end;                \
                for (stop = stop < end ? stop : end; at < stop; at++) {                            \
                    TYPE value = values[at];                                                       \
                    if (value < low && value > -most) low = value, low_at = at;                    \
                    if (value > high && value < most) high = value, high_at = at;                  \
                }                                                                                  \
            }                                                                                      \
            int64_t begin = begins[range], before = count;                                         \
            if (low_at < begin || low_at >= end) low_at = -1; /* of a damaged level */             \
            if (high_at < begin || high_at >= end) high_at = -1;                                   \
            count = put(found, count, before, begin);                                              \
            count = put(found, count, before, low_at < high_at ? low_at : high_at);                \
            count = put(found, count, before, low_at < high_at ? high_at : low_at);                \
            count = put(found, count, before, end - 1);                                            \
        }                                                                                          \
        return count;                                                                              \
    }

DEFINE_CHOOSE(choose_floats, float)
DEFINE_CHOOSE(choose_doubles, double)

/* Returns how many indices were found; there must be room for four of each range. */
int64_t trackside_choose(const void *values, int64_t value_bytes, const int64_t *levels,
                         int64_t num_levels, int64_t num_ranges, const int64_t *begins,
                         const int64_t *ends, int64_t *found) {
    if (value_bytes == 4)
        return choose_floats(values, levels, num_levels, num_ranges, begins, ends, found);
    return choose_doubles(values, levels, num_levels, num_ranges, begins, ends, found);
}
