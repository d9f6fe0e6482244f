/* An RTMP load generator: many publishers, viewers or idle connections from one thread, and the kernel's floor.
 *
 *   rtmp_load publish --port P --streams M          M publishers of an H.264-like stream with AAC-like audio
 *   rtmp_load play    --port P --streams M --connections N    N viewers, viewer i on stream i mod M
 *   rtmp_load idle    --port P --connections N      N connections that handshake, connect and stay
 *   rtmp_load floor   --connections N --flush message|frame|MS --by write|sendfile
 *                     no server: one process writes the bytes of one stream to N sockets, a child reads them
 *
 * Stream names are NAME0 to NAME(M-1). Events go to stderr as JSON lines (ready, window_start, window_end), the result
 * to stdout as one JSON object. SIGTERM ends the window early; with --seconds 0 it alone ends it.
 *
 * Every media payload is checkable. After the codec's few header bytes comes a stamp, big endian:
 *   magic u32 | digest of the rest u32 | sequence u32 | length u32 | CLOCK_MONOTONIC ns u64 | stream u32 | kind u32
 * and then a piece of a fixed tape of noise; which piece follows from stream, kind and sequence, so that a byte that is
 * wrong, moved or of another message shows. Sequences count up from 0 per stream and kind.
 *
 * Reads what RTMP 1.0 sections 5.2 to 5.4 and 7 allow a server to send, AMF0 only. Refuses other than loopback
 * addresses, more than MAX_CHUNK_STREAMS chunk streams a connection and commands above MAX_BODY_BYTES.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define RECEIVE_BYTES (256 * 1024)
#define HANDSHAKE_BYTES 1536
#define MAX_HEADER_BYTES 18
#define MAX_CHUNK_STREAMS 16
#define MAX_BODY_BYTES 65536
#define MAX_BACKLOG_BYTES (32u << 20)
#define MAX_FLOOR_LOG_BYTES (1ull << 30)
#define MAX_EVENTS 1024
#define PACE_NS (20 * NS_PER_MS)

enum mode { PUBLISH, PLAY, IDLE, FLOOR };
static const char *const MODE_NAMES[] = {"publish", "play", "idle", "floor"};

enum message_type {
    SET_CHUNK_SIZE = 1,
    USER_CONTROL = 4,
    WINDOW_ACK_SIZE = 5,
    AUDIO = 8,
    VIDEO = 9,
    DATA = 18,
    COMMAND = 20
};
enum { ACKNOWLEDGEMENT = 3, PING_REQUEST = 6, PING_RESPONSE = 7, SET_BUFFER_LENGTH = 3 };
enum { CONTROL_CSID = 2, COMMAND_CSID = 3, AUDIO_CSID = 4, DATA_CSID = 5, VIDEO_CSID = 6 };
enum { CONNECT_ID = 1, RELEASE_ID = 2, CREATE_ID = 3, START_ID = 4 };

static struct {
    enum mode mode;
    const char *host, *app, *name;
    struct sockaddr_in address;
    int port, streams, connections;
    int http_port; /* viewers ask for FLV there; 0: they are viewers of RTMP */
    double connections_per_s, seconds, warmup_s, settle_s;
    double video_bps, audio_bps, fps, audio_per_s, gop_s, key_ratio;
    int key_bytes; /* 0: by key_ratio */
    int chunk_bytes;
    int check_every; /* all bytes of each k-th viewer; 0: of none */
    double slow_share, slow_bytes_per_s;
    int slow_receive_buffer_bytes;
    const char *flush, *by;
    double flush_grid_ms; /* 0: per message, below 0: per video frame */
    bool by_sendfile;
    int writer_cpu, reader_cpu; /* of the floor; -1: any */
} options = {.host = "127.0.0.1", .app = "live", .name = "bench", .port = 1935, .streams = 1,
             .connections_per_s = 400, .seconds = 8, .warmup_s = 1, .settle_s = 15,
             .video_bps = 4e6, .audio_bps = 128e3, .fps = 30, .audio_per_s = 43, .gop_s = 2, .key_ratio = 6,
             .chunk_bytes = 4096, .check_every = 16, .slow_bytes_per_s = 200e3, .slow_receive_buffer_bytes = 16384,
             .flush = "message", .by = "write", .writer_cpu = -1, .reader_cpu = -1};

static volatile sig_atomic_t is_stopped;

static void on_stop(int signal_number) {
    (void)signal_number;
    is_stopped = 1;
}

__attribute__((noreturn, format(printf, 1, 2))) static void refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("rtmp_load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) refuse("no memory for %zu bytes", bytes);
    return memory;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static double own_cpu_s(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* SplitMix64: a fixed seed, so that two runs send the same bytes in the same phases. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* ---- bytes ---- */

static uint64_t read_be(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | *at++;
    return value;
}

static uint8_t *write_be(uint8_t *at, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
    return at + bytes;
}

/* AMF0 writers return the next free byte, so that values are written one inside the other's argument. */
static uint8_t *write_name(uint8_t *at, const char *name) {
    size_t length = strlen(name);
    at = write_be(at, length, 2);
    memcpy(at, name, length);
    return at + length;
}

static uint8_t *write_string(uint8_t *at, const char *text) {
    *at = 2;
    return write_name(at + 1, text);
}

static uint8_t *write_number(uint8_t *at, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    *at = 0;
    return write_be(at + 1, bits, 8);
}

static uint8_t *write_null(uint8_t *at) {
    *at = 5;
    return at + 1;
}

static uint8_t *write_object_end(uint8_t *at) { return write_be(at, 9, 3); }

static double read_number(const uint8_t *at) {
    uint64_t bits = read_be(at, 8);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* ---- histogram: 64 steps to the doubling, so a quantile is right within 1.6 % ---- */

#define STEPS 64
#define BUCKETS (STEPS * 40)

struct histogram {
    uint64_t counts[BUCKETS], total, max_ns;
    double sum_ns;
};

static int bucket_of(uint64_t value_us) {
    if (value_us < STEPS) return (int)value_us;
    int shift = 63 - __builtin_clzll(value_us) - 6;
    int bucket = (shift + 1) * STEPS + (int)((value_us >> shift) - STEPS);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static void count(struct histogram *histogram, uint64_t value_ns) {
    histogram->counts[bucket_of(value_ns / 1000)]++;
    histogram->total++;
    histogram->sum_ns += (double)value_ns;
    if (value_ns > histogram->max_ns) histogram->max_ns = value_ns;
}

static double quantile_ms(const struct histogram *histogram, double share) {
    uint64_t wanted = (uint64_t)(share * (double)histogram->total), seen = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        seen += histogram->counts[bucket];
        if (seen <= wanted) continue;
        int shift = bucket / STEPS - 1;
        double middle_us =
            bucket < STEPS ? bucket + 0.5 : ((double)(STEPS + bucket % STEPS) + 0.5) * (double)(1ull << shift);
        double max_ms = (double)histogram->max_ns / 1e6;
        return middle_us / 1e3 < max_ms ? middle_us / 1e3 : max_ms;
    }
    return (double)histogram->max_ns / 1e6;
}

static void print_histogram(const char *name, const struct histogram *histogram) {
    printf("\"%s\":{\"count\":%llu", name, (unsigned long long)histogram->total);
    if (histogram->total)
        printf(",\"mean_ms\":%.3f,\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f",
               histogram->sum_ns / (double)histogram->total / 1e6, quantile_ms(histogram, 0.5),
               quantile_ms(histogram, 0.9), quantile_ms(histogram, 0.99), (double)histogram->max_ns / 1e6);
    printf("}");
}

/* ---- media: what is sent and how it is checked ---- */

#define MAGIC 0x50E57ACCu
#define STAMP_BYTES 32
#define VIDEO_PREFIX_BYTES 10
#define AUDIO_PREFIX_BYTES 2
#define MAX_HEAD_BYTES (VIDEO_PREFIX_BYTES + STAMP_BYTES)
#define TAPE_PERIOD 65521u /* prime: pieces of different messages start at different places for a long time */

static uint32_t key_frame_bytes, delta_frame_bytes, audio_bytes, gop_frames, max_payload_bytes;
static uint8_t *tape; /* TAPE_PERIOD + max_payload_bytes, so that every piece is contiguous */
static uint8_t *payload_scratch;

struct stamp {
    uint32_t sequence, length, stream, kind;
    uint64_t sent_ns;
};

static uint32_t prefix_bytes(uint32_t kind) { return kind == VIDEO ? VIDEO_PREFIX_BYTES : AUDIO_PREFIX_BYTES; }

static uint32_t at_least(double bytes, uint32_t floor_bytes) {
    return bytes > floor_bytes ? (uint32_t)bytes : floor_bytes;
}

static void prepare_media(void) {
    gop_frames = at_least(options.gop_s * options.fps + 0.5, 1);
    double gop_bytes = options.video_bps / 8 * gop_frames / options.fps;
    double weight = gop_frames - 1 + options.key_ratio;
    double key = options.key_bytes ? options.key_bytes : gop_bytes / weight * options.key_ratio;
    key_frame_bytes = at_least(key, 64);
    delta_frame_bytes = at_least(gop_frames > 1 ? (gop_bytes - key) / (gop_frames - 1) : 0, 64);
    audio_bytes = at_least(options.audio_per_s > 0 ? options.audio_bps / 8 / options.audio_per_s : 0, 48);
    max_payload_bytes = key_frame_bytes > delta_frame_bytes ? key_frame_bytes : delta_frame_bytes;
    if (audio_bytes > max_payload_bytes) max_payload_bytes = audio_bytes;
    if (max_payload_bytes > 0xFFFFFF) refuse("a frame of %u bytes does not fit an RTMP message", max_payload_bytes);
    tape = allocate(TAPE_PERIOD + RECEIVE_BYTES + max_payload_bytes);
    payload_scratch = allocate(max_payload_bytes);
    uint64_t state = 1;
    for (uint32_t i = 0; i < TAPE_PERIOD; i++) tape[i] = (uint8_t)next_random(&state);
    for (uint32_t i = 0; i < RECEIVE_BYTES + max_payload_bytes; i++) tape[TAPE_PERIOD + i] = tape[i];
}

static uint32_t frame_bytes(uint32_t kind, uint32_t sequence) {
    if (kind == AUDIO) return audio_bytes;
    return sequence % gop_frames ? delta_frame_bytes : key_frame_bytes;
}

static uint32_t tape_start(const struct stamp *stamp) {
    return (uint32_t)((stamp->sequence * 7919ull + stamp->stream * 104729ull + stamp->kind * 31ull) % TAPE_PERIOD);
}

static uint32_t digest(const struct stamp *stamp) {
    uint64_t state = (uint64_t)stamp->sequence << 32 | stamp->length;
    state = next_random(&state) ^ stamp->sent_ns;
    state = next_random(&state) ^ ((uint64_t)stamp->stream << 32 | stamp->kind);
    return (uint32_t)next_random(&state);
}

static void write_prefix(uint8_t *at, uint32_t kind, bool is_key, uint32_t length) {
    if (kind == AUDIO) {
        write_be(at, 0xAF01, 2);
        return;
    }
    at = write_be(at, is_key ? 0x1701 : 0x2701, 2);
    at = write_be(at, 0, 3);
    at = write_be(at, length - 9, 4);
    *at = is_key ? 0x65 : 0x41;
}

/* Payload of one audio or video message, stamped with this moment, in payload_scratch. */
static uint32_t make_payload(uint32_t kind, uint32_t sequence, uint32_t stream) {
    struct stamp stamp = {sequence, frame_bytes(kind, sequence), stream, kind, 0};
    uint32_t start = prefix_bytes(kind);
    memcpy(payload_scratch, tape + tape_start(&stamp), stamp.length);
    write_prefix(payload_scratch, kind, kind == VIDEO && sequence % gop_frames == 0, stamp.length);
    stamp.sent_ns = now_ns();
    uint8_t *at = write_be(payload_scratch + start, MAGIC, 4);
    at = write_be(at, digest(&stamp), 4);
    at = write_be(at, stamp.sequence, 4);
    at = write_be(at, stamp.length, 4);
    at = write_be(at, stamp.sent_ns, 8);
    at = write_be(at, stamp.stream, 4);
    write_be(at, stamp.kind, 4);
    return stamp.length;
}

static bool read_stamp(const uint8_t *head, uint32_t kind, struct stamp *stamp) {
    const uint8_t *at = head + prefix_bytes(kind);
    *stamp = (struct stamp){.sequence = (uint32_t)read_be(at + 8, 4),
                            .length = (uint32_t)read_be(at + 12, 4),
                            .sent_ns = read_be(at + 16, 8),
                            .stream = (uint32_t)read_be(at + 24, 4),
                            .kind = (uint32_t)read_be(at + 28, 4)};
    return read_be(at, 4) == MAGIC && read_be(at + 4, 4) == digest(stamp);
}

/* When which message of which stream is due. Streams start at random moments of one GOP, so that neither their
 * frames nor their keyframes coincide; after that they recur in a fixed order, which makes this a walk, not a heap. */
struct rotation {
    uint32_t kind;
    double interval_ns;
    struct turn {
        double phase_ns;
        int stream, late_rounds;
    } *turns;
    uint64_t round;
    int turn;
};

static struct rotation rotations[2];
static uint64_t schedule_start_ns;

static int compare_turns(const void *left, const void *right) {
    double a = ((const struct turn *)left)->phase_ns, b = ((const struct turn *)right)->phase_ns;
    return (a > b) - (a < b);
}

static void prepare_rotation(struct rotation *rotation, uint32_t kind, double per_s, double lag_ns) {
    *rotation = (struct rotation){.kind = kind, .interval_ns = 1e9 / per_s};
    rotation->turns = allocate(sizeof *rotation->turns * (size_t)options.streams);
    uint64_t state = 2;
    for (int stream = 0; stream < options.streams; stream++) {
        double share = options.streams > 1 ? (double)(next_random(&state) >> 11) / (double)(1ull << 53) : 0;
        double start_ns = share * options.gop_s * 1e9 + lag_ns;
        struct turn *turn = &rotation->turns[stream];
        turn->stream = stream;
        turn->late_rounds = (int)(start_ns / rotation->interval_ns);
        turn->phase_ns = start_ns - turn->late_rounds * rotation->interval_ns;
    }
    qsort(rotation->turns, (size_t)options.streams, sizeof *rotation->turns, compare_turns);
}

static void prepare_schedule(void) {
    prepare_rotation(&rotations[0], VIDEO, options.fps, 0);
    /* Audio begins a little after the first frame, as an encoder's does; with none, never. */
    prepare_rotation(&rotations[1], AUDIO, options.audio_per_s > 0 ? options.audio_per_s : 1e-6, 3e6);
    if (options.audio_per_s <= 0) rotations[1].round = 1;
}

static uint64_t due_ns(const struct rotation *rotation) {
    double since_start_ns = (double)rotation->round * rotation->interval_ns + rotation->turns[rotation->turn].phase_ns;
    return schedule_start_ns + (uint64_t)since_start_ns;
}

static struct rotation *next_rotation(void) {
    return due_ns(&rotations[0]) <= due_ns(&rotations[1]) ? &rotations[0] : &rotations[1];
}

/* The sequence of the turn in hand, below 0 while its stream has not started; moves on to the next turn. */
static int64_t take_turn(struct rotation *rotation, int *stream) {
    const struct turn *turn = &rotation->turns[rotation->turn];
    int64_t sequence = (int64_t)rotation->round - turn->late_rounds;
    *stream = turn->stream;
    if (++rotation->turn == options.streams) rotation->turn = 0, rotation->round++;
    return sequence;
}

/* ---- connections ---- */

enum state { UNDIALLED, DIALLING, SHAKING, CONNECTING, CREATING, STARTING, LIVE, CLOSED };

struct chunk_stream {
    uint32_t csid, length, received, tape_at;
    uint8_t type, head_bytes;
    bool is_extended, is_in_message, is_wrong, is_stamped;
    uint8_t head[MAX_HEAD_BYTES];
    uint8_t *body; /* of messages that are neither audio nor video */
};

struct track { /* one kind of media as one viewer sees it */
    bool is_started;
    uint32_t newest;
    uint64_t seen; /* bit i: newest - i has arrived */
};

struct connection {
    int socket, stream;
    enum state state;
    bool wants_write, is_slow, checks_all;
    uint8_t *handshake;
    uint32_t handshake_bytes;
    uint32_t chunk_bytes_in, chunk_left;
    struct chunk_stream *chunk_streams, *current;
    int chunk_stream_count;
    uint8_t header[MAX_HEADER_BYTES];
    uint32_t header_bytes;
    uint64_t received_bytes, acknowledged_bytes;
    uint32_t acknowledgement_window;
    uint32_t head_matched, head_seen, skip_bytes; /* of an answer over HTTP */
    uint8_t *backlog;
    size_t backlog_start, backlog_end, backlog_room;
    uint32_t message_stream_id;
    uint32_t last_time_ms[2];
    bool is_timed[2];
    uint64_t play_sent_ns, read_at_ns;
    double allowance_bytes;
    bool has_key_frame;
    struct track tracks[2];
};

struct tally {
    uint64_t viewers, messages, video_messages, bytes, gaps, missing, duplicates, reordered, resumed_off_key;
    struct histogram latency;
};

static struct connection *connections;
static int poller = -1;
static uint8_t *receive_buffer;
static int dialled, live, closed, failed, dropped, with_key_frame;
static bool is_in_window;
static uint64_t receive_calls, send_calls, wire_bytes_in, wire_bytes_out, sent_messages, stalled_sends;
static uint64_t corrupt_messages, protocol_errors, checked_bytes;
static struct tally tallies[2]; /* steady viewers, slow viewers */
static struct histogram first_key_frames, latenesses;

static void close_connection(struct connection *connection) {
    if (connection->state == CLOSED) return;
    if (connection->state == LIVE) live--, dropped++;
    else failed++;
    connection->state = CLOSED;
    closed++;
    close(connection->socket);
}

static void watch(struct connection *connection, bool wants_write) {
    bool reads = !(connection->is_slow && connection->state == LIVE);
    struct epoll_event event = {.events = (reads ? EPOLLIN : 0u) | (wants_write ? EPOLLOUT : 0u),
                                .data.ptr = connection};
    epoll_ctl(poller, EPOLL_CTL_MOD, connection->socket, &event);
    connection->wants_write = wants_write;
}

static void go_live(struct connection *connection) {
    connection->state = LIVE;
    connection->read_at_ns = now_ns();
    live++;
    if (connection->is_slow) watch(connection, connection->wants_write);
}

static void send_backlog(struct connection *connection) {
    while (connection->state != CLOSED && connection->backlog_start < connection->backlog_end) {
        ssize_t sent = send(connection->socket, connection->backlog + connection->backlog_start,
                            connection->backlog_end - connection->backlog_start, MSG_NOSIGNAL | MSG_DONTWAIT);
        send_calls++;
        if (sent < 0 && errno == EAGAIN) {
            if (!connection->wants_write) watch(connection, true);
            return;
        }
        if (sent < 0) {
            close_connection(connection);
            return;
        }
        connection->backlog_start += (size_t)sent;
        if (is_in_window) wire_bytes_out += (uint64_t)sent;
    }
    connection->backlog_start = connection->backlog_end = 0;
    if (connection->state != CLOSED && connection->wants_write) watch(connection, false);
}

static uint8_t *backlog_room(struct connection *connection, size_t bytes) {
    if (connection->backlog_end + bytes > connection->backlog_room) {
        connection->backlog_room = connection->backlog_end + bytes + 4096;
        connection->backlog = realloc(connection->backlog, connection->backlog_room);
        if (!connection->backlog) refuse("no memory for a backlog of %zu bytes", connection->backlog_room);
    }
    return connection->backlog + connection->backlog_end;
}

static size_t chunked_bytes(uint32_t length, uint32_t chunk_bytes) {
    return MAX_HEADER_BYTES + length + length / chunk_bytes;
}

struct message {
    uint32_t csid, type, message_stream_id, time_ms;
    bool is_delta; /* fmt 1: time_ms is the difference to the message before */
    const uint8_t *payload;
    uint32_t length;
};

/* Times stay far below 0xFFFFFF, so no extended timestamp is ever written. */
static uint8_t *write_message(uint8_t *at, const struct message *message, uint32_t chunk_bytes) {
    *at++ = (uint8_t)((message->is_delta ? 0x40 : 0) | message->csid);
    at = write_be(at, message->time_ms, 3);
    at = write_be(at, message->length, 3);
    *at++ = (uint8_t)message->type;
    if (!message->is_delta) {
        at = write_be(at, (uint64_t)__builtin_bswap32(message->message_stream_id), 4);
    }
    for (uint32_t done = 0; done < message->length;) {
        uint32_t piece = message->length - done < chunk_bytes ? message->length - done : chunk_bytes;
        if (done) *at++ = (uint8_t)(0xC0 | message->csid);
        memcpy(at, message->payload + done, piece);
        at += piece;
        done += piece;
    }
    return at;
}

static void append(struct connection *connection, const struct message *message) {
    /* Our own chunk size is announced together with publish: everything before travels in chunks of 128. */
    uint32_t chunk_bytes = connection->state == LIVE && options.mode == PUBLISH ? (uint32_t)options.chunk_bytes : 128;
    uint8_t *start = backlog_room(connection, chunked_bytes(message->length, chunk_bytes));
    connection->backlog_end += (size_t)(write_message(start, message, chunk_bytes) - start);
}

static void append_command(struct connection *connection, uint32_t message_stream_id, const uint8_t *payload,
                           const uint8_t *end) {
    append(connection, &(struct message){.csid = COMMAND_CSID,
                                         .type = COMMAND,
                                         .message_stream_id = message_stream_id,
                                         .payload = payload,
                                         .length = (uint32_t)(end - payload)});
}

static void append_control(struct connection *connection, uint32_t type, const uint8_t *payload, const uint8_t *end) {
    append(
        connection,
        &(struct message){.csid = CONTROL_CSID, .type = type, .payload = payload, .length = (uint32_t)(end - payload)});
}

/* ---- the session: handshake, connect, createStream, publish or play ---- */

static void dial(struct connection *connection) {
    dialled++;
    connection->state = DIALLING;
    connection->chunk_bytes_in = 128;
    connection->socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection->socket < 0) refuse("no socket: %s", strerror(errno));
    setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (connection->is_slow) /* before connect, as the window's scale is agreed there */
        setsockopt(connection->socket, SOL_SOCKET, SO_RCVBUF, &options.slow_receive_buffer_bytes, sizeof(int));
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = connection};
    connection->wants_write = true;
    epoll_ctl(poller, EPOLL_CTL_ADD, connection->socket, &event);
    if (connect(connection->socket, (struct sockaddr *)&options.address, sizeof options.address) < 0 &&
        errno != EINPROGRESS)
        close_connection(connection);
}

static const char *stream_name(const struct connection *connection) {
    static char name[128];
    snprintf(name, sizeof name, "%s%d", options.name, connection->stream);
    return name;
}

static void ask_for_flv(struct connection *connection) {
    uint8_t *at = backlog_room(connection, 512);
    /* By 1.0 no server sends chunks, whose sizes would stand between the tags. */
    int bytes = snprintf((char *)at, 512, "GET /%s/%s.flv HTTP/1.0\r\nHost: localhost\r\n\r\n", options.app,
                         stream_name(connection));
    connection->backlog_end += (size_t)bytes;
    connection->state = STARTING;
    connection->play_sent_ns = now_ns();
    send_backlog(connection);
}

static void begin_handshake(struct connection *connection) {
    int error = 0;
    socklen_t error_bytes = sizeof error;
    getsockopt(connection->socket, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
    if (error) {
        close_connection(connection);
        return;
    }
    if (options.http_port) {
        ask_for_flv(connection);
        return;
    }
    connection->state = SHAKING;
    connection->handshake = allocate(1 + 2 * HANDSHAKE_BYTES);
    uint8_t *at = backlog_room(connection, 1 + HANDSHAKE_BYTES);
    memset(at, 0, 9);
    *at = 3;
    memcpy(at + 9, tape, HANDSHAKE_BYTES - 8);
    connection->backlog_end += 1 + HANDSHAKE_BYTES;
    send_backlog(connection);
}

static void send_connect(struct connection *connection) {
    uint8_t payload[1024];
    char url[320];
    memcpy(backlog_room(connection, HANDSHAKE_BYTES), connection->handshake + 1, HANDSHAKE_BYTES);
    connection->backlog_end += HANDSHAKE_BYTES;
    free(connection->handshake);
    connection->handshake = NULL;
    snprintf(url, sizeof url, "rtmp://%s:%d/%s", inet_ntoa(options.address.sin_addr), ntohs(options.address.sin_port),
             options.app);
    uint8_t *at = write_number(write_string(payload, "connect"), CONNECT_ID);
    *at++ = 3;
    at = write_string(write_name(at, "app"), options.app);
    at = write_string(write_name(at, "flashVer"), "LNX 9,0,124,2");
    at = write_string(write_name(at, "tcUrl"), url);
    at = write_number(write_name(at, "objectEncoding"), 0);
    append_command(connection, 0, payload, write_object_end(at));
    connection->state = CONNECTING;
    send_backlog(connection);
}

static void send_create_stream(struct connection *connection) {
    uint8_t payload[512];
    if (options.mode == PUBLISH) {
        uint8_t *end = write_string(write_null(write_number(write_string(payload, "releaseStream"), RELEASE_ID)),
                                    stream_name(connection));
        append_command(connection, 0, payload, end);
    }
    append_command(connection, 0, payload, write_null(write_number(write_string(payload, "createStream"), CREATE_ID)));
    connection->state = CREATING;
    send_backlog(connection);
}

static void send_start(struct connection *connection) {
    uint8_t payload[512], control[16];
    bool is_publisher = options.mode == PUBLISH;
    uint8_t *at = write_null(write_number(write_string(payload, is_publisher ? "publish" : "play"), START_ID));
    at = write_string(at, stream_name(connection));
    at = is_publisher ? write_string(at, "live") : write_number(at, -2000);
    append_command(connection, connection->message_stream_id, payload, at);
    if (is_publisher) {
        append_control(connection, SET_CHUNK_SIZE, control, write_be(control, (uint64_t)options.chunk_bytes, 4));
    } else {
        at = write_be(write_be(write_be(control, SET_BUFFER_LENGTH, 2), connection->message_stream_id, 4), 3000, 4);
        append_control(connection, USER_CONTROL, control, at);
    }
    connection->state = STARTING;
    connection->play_sent_ns = now_ns();
    send_backlog(connection);
}

/* AMF0 text of one property, wherever in the command it is; enough for onStatus, whose values are short strings. */
static bool property_is(const uint8_t *payload, uint32_t length, const char *name, const char *value) {
    uint8_t wanted[96];
    uint8_t *end = write_string(write_name(wanted, name), value);
    return memmem(payload, length, wanted, (size_t)(end - wanted)) != NULL;
}

static void on_command(struct connection *connection, const uint8_t *payload, uint32_t length) {
    uint32_t name_bytes = length >= 3 && payload[0] == 2 ? (uint32_t)read_be(payload + 1, 2) : length;
    if (3 + name_bytes + 9 > length) return;
    const char *name = (const char *)payload + 3;
    const uint8_t *arguments = payload + 3 + name_bytes + 9;
    uint32_t argument_bytes = length - (3 + name_bytes + 9);
    int transaction = (int)read_number(arguments - 8);
    bool is_result = name_bytes == 7 && !memcmp(name, "_result", 7);
    if (name_bytes == 6 && !memcmp(name, "_error", 6) && transaction != RELEASE_ID) {
        close_connection(connection);
    } else if (is_result && connection->state == CONNECTING && transaction == CONNECT_ID) {
        if (options.mode == IDLE) go_live(connection);
        else send_create_stream(connection);
    } else if (is_result && connection->state == CREATING && transaction == CREATE_ID) {
        connection->message_stream_id =
            argument_bytes >= 10 && arguments[1] == 0 ? (uint32_t)read_number(arguments + 2) : 1;
        send_start(connection);
    } else if (name_bytes == 8 && !memcmp(name, "onStatus", 8)) {
        const char *code = options.mode == PUBLISH ? "NetStream.Publish.Start" : "NetStream.Play.Start";
        if (property_is(arguments, argument_bytes, "level", "error")) close_connection(connection);
        else if (connection->state == STARTING && property_is(arguments, argument_bytes, "code", code))
            go_live(connection);
    }
}

/* ---- viewers ---- */

static void count_sequence(struct connection *connection, struct tally *tally, const struct stamp *stamp, bool is_key) {
    struct track *track = &connection->tracks[stamp->kind == VIDEO];
    if (!track->is_started) {
        *track = (struct track){true, stamp->sequence, 1};
        return;
    }
    int64_t step = (int64_t)stamp->sequence - track->newest;
    if (step > 0) {
        if (step > 1 && is_in_window) {
            tally->gaps++;
            tally->missing += (uint64_t)step - 1;
            tally->resumed_off_key += stamp->kind == VIDEO && !is_key;
        }
        track->seen = (step < 64 ? track->seen << step : 0) | 1;
        track->newest = stamp->sequence;
    } else {
        uint64_t bit = step > -64 ? 1ull << -step : 0;
        if (track->seen & bit) tally->duplicates++;
        else tally->reordered++;
        track->seen |= bit;
    }
}

/* A message without a stamp is right only as a set-up: small, and of a packet type that carries no picture or sound. */
static bool is_setup(const struct chunk_stream *chunk_stream) {
    return chunk_stream->length < 64 && (chunk_stream->head_bytes < 2 || chunk_stream->head[1] != 1);
}

static void on_media(struct connection *connection, struct chunk_stream *chunk_stream, uint64_t arrived_ns) {
    uint8_t prefix[VIDEO_PREFIX_BYTES];
    struct stamp stamp;
    if (is_setup(chunk_stream)) return;
    bool is_key = chunk_stream->type == VIDEO && chunk_stream->head[0] >> 4 == 1;
    if (!chunk_stream->is_stamped || chunk_stream->is_wrong) {
        corrupt_messages++;
        return;
    }
    read_stamp(chunk_stream->head, chunk_stream->type, &stamp);
    write_prefix(prefix, stamp.kind, stamp.kind == VIDEO && stamp.sequence % gop_frames == 0, stamp.length);
    if (stamp.length != chunk_stream->length || stamp.kind != chunk_stream->type ||
        stamp.stream != (uint32_t)connection->stream || stamp.sent_ns > arrived_ns ||
        memcmp(prefix, chunk_stream->head, prefix_bytes(stamp.kind))) {
        corrupt_messages++;
        return;
    }
    struct tally *tally = &tallies[connection->is_slow];
    if (is_key && !connection->has_key_frame) {
        connection->has_key_frame = true;
        with_key_frame++;
        if (connection->play_sent_ns) count(&first_key_frames, arrived_ns - connection->play_sent_ns);
    }
    count_sequence(connection, tally, &stamp, is_key);
    if (!is_in_window) return;
    tally->messages++;
    tally->video_messages += stamp.kind == VIDEO;
    tally->bytes += stamp.length;
    count(&tally->latency, arrived_ns - stamp.sent_ns);
}

/* ---- chunks in ---- */

static bool is_media(const struct chunk_stream *chunk_stream) {
    return chunk_stream->type == AUDIO || chunk_stream->type == VIDEO;
}

static void on_message(struct connection *connection, struct chunk_stream *chunk_stream, uint64_t arrived_ns) {
    const uint8_t *body = chunk_stream->body;
    uint32_t length = chunk_stream->length;
    uint8_t answer[8];
    if (is_media(chunk_stream)) {
        if (options.mode != PUBLISH) on_media(connection, chunk_stream, arrived_ns);
        return;
    }
    if (chunk_stream->type == COMMAND) {
        on_command(connection, body, length);
    } else if (chunk_stream->type == SET_CHUNK_SIZE && length >= 4) {
        connection->chunk_bytes_in = (uint32_t)read_be(body, 4) & 0x7FFFFFFF;
    } else if (chunk_stream->type == WINDOW_ACK_SIZE && length >= 4) {
        connection->acknowledgement_window = (uint32_t)read_be(body, 4);
    } else if (chunk_stream->type == USER_CONTROL && length >= 6 && read_be(body, 2) == PING_REQUEST) {
        append_control(connection, USER_CONTROL, answer,
                       write_be(write_be(answer, PING_RESPONSE, 2), read_be(body + 2, 4), 4));
        send_backlog(connection);
    }
    free(chunk_stream->body);
    chunk_stream->body = NULL;
}

static struct chunk_stream *find_chunk_stream(struct connection *connection, uint32_t csid) {
    for (int i = 0; i < connection->chunk_stream_count; i++)
        if (connection->chunk_streams[i].csid == csid) return &connection->chunk_streams[i];
    return NULL;
}

static struct chunk_stream *add_chunk_stream(struct connection *connection, uint32_t csid) {
    if (connection->chunk_stream_count == MAX_CHUNK_STREAMS) return NULL;
    if (!connection->chunk_streams)
        connection->chunk_streams = allocate(MAX_CHUNK_STREAMS * sizeof *connection->chunk_streams);
    struct chunk_stream *added = &connection->chunk_streams[connection->chunk_stream_count++];
    added->csid = csid;
    return added;
}

enum { NEEDS_MORE = 0, BROKEN = -1 };

/* Bytes of the chunk header at `at`, NEEDS_MORE or BROKEN. Nothing is changed before the header is whole. */
static int read_chunk_header(struct connection *connection, const uint8_t *at, size_t bytes) {
    static const uint8_t MESSAGE_HEADER_BYTES[] = {11, 7, 3, 0};
    uint32_t fmt = at[0] >> 6, csid = at[0] & 63;
    size_t used = csid == 0 ? 2 : csid == 1 ? 3 : 1;
    if (bytes < used) return NEEDS_MORE;
    if (csid < 2) csid = 64 + at[1] + (csid == 1 ? 256u * at[2] : 0);
    struct chunk_stream *chunk_stream = find_chunk_stream(connection, csid);
    if (!chunk_stream && fmt >= 2) return BROKEN;
    const uint8_t *fields = at + used;
    used += MESSAGE_HEADER_BYTES[fmt];
    if (bytes < used) return NEEDS_MORE;
    bool is_extended = fmt == 3 ? chunk_stream->is_extended : read_be(fields, 3) == 0xFFFFFF;
    if (is_extended) used += 4;
    if (bytes < used) return NEEDS_MORE;
    if (!chunk_stream && !(chunk_stream = add_chunk_stream(connection, csid))) return BROKEN;
    if (fmt < 3 && chunk_stream->is_in_message) return BROKEN;
    chunk_stream->is_extended = is_extended;
    if (fmt < 2) {
        chunk_stream->length = (uint32_t)read_be(fields + 3, 3);
        chunk_stream->type = fields[6];
    }
    if (!chunk_stream->is_in_message) {
        if (!is_media(chunk_stream)) {
            if (chunk_stream->length > MAX_BODY_BYTES) return BROKEN;
            chunk_stream->body = allocate(chunk_stream->length);
        }
        chunk_stream->is_in_message = true;
        chunk_stream->is_wrong = chunk_stream->is_stamped = false;
        chunk_stream->received = chunk_stream->head_bytes = 0;
    }
    uint32_t message_left = chunk_stream->length - chunk_stream->received;
    connection->chunk_left = message_left < connection->chunk_bytes_in ? message_left : connection->chunk_bytes_in;
    connection->current = chunk_stream;
    return (int)used;
}

static void take_payload(struct connection *connection, struct chunk_stream *chunk_stream, const uint8_t *at,
                         uint32_t bytes) {
    uint32_t offset = chunk_stream->received;
    chunk_stream->received += bytes;
    if (!is_media(chunk_stream)) {
        memcpy(chunk_stream->body + offset, at, bytes);
        return;
    }
    uint32_t head_bytes = prefix_bytes(chunk_stream->type) + STAMP_BYTES;
    if (offset < head_bytes) {
        uint32_t piece = head_bytes - offset < bytes ? head_bytes - offset : bytes;
        memcpy(chunk_stream->head + offset, at, piece);
        chunk_stream->head_bytes = (uint8_t)(offset + piece);
        at += piece, bytes -= piece, offset += piece;
        if (offset == head_bytes) {
            struct stamp stamp;
            chunk_stream->is_stamped = read_stamp(chunk_stream->head, chunk_stream->type, &stamp);
            chunk_stream->tape_at = tape_start(&stamp);
        }
    }
    if (bytes && connection->checks_all && chunk_stream->is_stamped) {
        chunk_stream->is_wrong |= memcmp(at, tape + (chunk_stream->tape_at + offset) % TAPE_PERIOD, bytes) != 0;
        checked_bytes += bytes;
    }
}

static void read_chunks(struct connection *connection, const uint8_t *at, size_t bytes, uint64_t arrived_ns) {
    while (connection->state != CLOSED) {
        if (!connection->current) {
            if (!bytes) return;
            int used;
            if (connection->header_bytes) { /* a header that was cut: byte by byte until it is whole */
                connection->header[connection->header_bytes++] = *at++, bytes--;
                used = read_chunk_header(connection, connection->header, connection->header_bytes);
            } else {
                used = read_chunk_header(connection, at, bytes);
                if (used == NEEDS_MORE) {
                    memcpy(connection->header, at, bytes);
                    connection->header_bytes = (uint32_t)bytes;
                    return;
                }
                if (used > 0) at += used, bytes -= (size_t)used;
            }
            if (used == BROKEN) {
                protocol_errors++;
                close_connection(connection);
                return;
            }
            if (used == NEEDS_MORE) continue;
            connection->header_bytes = 0;
        }
        struct chunk_stream *chunk_stream = connection->current;
        uint32_t piece = bytes < connection->chunk_left ? (uint32_t)bytes : connection->chunk_left;
        take_payload(connection, chunk_stream, at, piece);
        at += piece, bytes -= piece, connection->chunk_left -= piece;
        if (connection->chunk_left) return;
        connection->current = NULL;
        if (chunk_stream->received == chunk_stream->length) {
            chunk_stream->is_in_message = false;
            on_message(connection, chunk_stream, arrived_ns);
        }
    }
}

/* ---- FLV over HTTP ---- */

enum { FLV_HEADER_BYTES = 13, TAG_HEADER_BYTES = 11, BACK_POINTER_BYTES = 4, STATUS_BYTES = 12 };

/* How many bytes of the answer's head there were; the whole of it is never kept. */
static size_t read_http_head(struct connection *connection, const uint8_t *at, size_t bytes) {
    static const char END[] = "\r\n\r\n";
    for (size_t i = 0; i < bytes; i++) {
        if (connection->head_seen < STATUS_BYTES) connection->header[connection->head_seen] = at[i];
        connection->head_seen++;
        connection->head_matched = at[i] == (uint8_t)END[connection->head_matched] ? connection->head_matched + 1
                                   : at[i] == '\r'                                ? 1
                                                                                 : 0;
        if (connection->head_matched < 4) continue;
        if (memcmp(connection->header, "HTTP/1.1 200", STATUS_BYTES)) {
            close_connection(connection);
            return bytes;
        }
        connection->skip_bytes = FLV_HEADER_BYTES;
        go_live(connection);
        return i + 1;
    }
    return bytes;
}

static void read_tags(struct connection *connection, const uint8_t *at, size_t bytes, uint64_t arrived_ns) {
    while (bytes && connection->state != CLOSED) {
        if (connection->skip_bytes) {
            uint32_t piece = bytes < connection->skip_bytes ? (uint32_t)bytes : connection->skip_bytes;
            connection->skip_bytes -= piece, at += piece, bytes -= piece;
            continue;
        }
        if (!connection->current) {
            uint32_t missing = TAG_HEADER_BYTES - connection->header_bytes;
            uint32_t piece = bytes < missing ? (uint32_t)bytes : missing;
            memcpy(connection->header + connection->header_bytes, at, piece);
            connection->header_bytes += piece, at += piece, bytes -= piece;
            if (connection->header_bytes < TAG_HEADER_BYTES) return;
            connection->header_bytes = 0;
            struct chunk_stream *tag = connection->chunk_stream_count ? connection->chunk_streams
                                                                      : add_chunk_stream(connection, 2);
            tag->type = connection->header[0];
            tag->length = (uint32_t)read_be(connection->header + 1, 3);
            if (!tag->length || (!is_media(tag) && tag->length > MAX_BODY_BYTES)) {
                protocol_errors++;
                close_connection(connection);
                return;
            }
            if (!is_media(tag)) tag->body = allocate(tag->length);
            tag->is_wrong = tag->is_stamped = false;
            tag->received = tag->head_bytes = 0;
            connection->chunk_left = tag->length;
            connection->current = tag;
        }
        struct chunk_stream *tag = connection->current;
        uint32_t piece = bytes < connection->chunk_left ? (uint32_t)bytes : connection->chunk_left;
        take_payload(connection, tag, at, piece);
        at += piece, bytes -= piece, connection->chunk_left -= piece;
        if (connection->chunk_left) return;
        connection->current = NULL;
        connection->skip_bytes = BACK_POINTER_BYTES;
        if (is_media(tag)) on_media(connection, tag, arrived_ns);
        free(tag->body);
        tag->body = NULL;
    }
}

static void acknowledge(struct connection *connection) {
    uint64_t unacknowledged_bytes = connection->received_bytes - connection->acknowledged_bytes;
    if (!connection->acknowledgement_window || unacknowledged_bytes < connection->acknowledgement_window / 2) return;
    uint8_t payload[4];
    append_control(connection, ACKNOWLEDGEMENT, payload, write_be(payload, connection->received_bytes, 4));
    connection->acknowledged_bytes = connection->received_bytes;
    send_backlog(connection);
}

static void receive(struct connection *connection, size_t room) {
    ssize_t received = recv(connection->socket, receive_buffer, room, MSG_DONTWAIT);
    receive_calls++;
    if (received < 0 && errno == EAGAIN) return;
    if (received <= 0) {
        close_connection(connection);
        return;
    }
    const uint8_t *at = receive_buffer;
    size_t bytes = (size_t)received;
    connection->received_bytes += bytes;
    if (is_in_window) wire_bytes_in += bytes;
    if (connection->state == SHAKING) {
        size_t wanted = 1 + 2 * HANDSHAKE_BYTES - connection->handshake_bytes, piece = bytes < wanted ? bytes : wanted;
        memcpy(connection->handshake + connection->handshake_bytes, at, piece);
        connection->handshake_bytes += (uint32_t)piece;
        at += piece, bytes -= piece;
        if (piece < wanted) return;
        send_connect(connection);
    }
    if (options.http_port) {
        if (connection->state == STARTING) {
            size_t used = read_http_head(connection, at, bytes);
            at += used, bytes -= used;
        }
        read_tags(connection, at, bytes, now_ns());
        return;
    }
    read_chunks(connection, at, bytes, now_ns());
    if (connection->state != CLOSED) acknowledge(connection);
}

/* ---- publishers ---- */

static void append_timed(struct connection *connection, uint32_t kind, uint32_t time_ms, const uint8_t *payload,
                         uint32_t length) {
    bool is_video = kind == VIDEO, is_delta = connection->is_timed[is_video];
    uint32_t time_field_ms = is_delta ? time_ms - connection->last_time_ms[is_video] : time_ms;
    append(connection, &(struct message){.csid = is_video ? VIDEO_CSID : AUDIO_CSID,
                                         .type = kind,
                                         .message_stream_id = connection->message_stream_id,
                                         .time_ms = time_field_ms,
                                         .is_delta = is_delta,
                                         .payload = payload,
                                         .length = length});
    connection->last_time_ms[is_video] = time_ms;
    connection->is_timed[is_video] = true;
}

static void append_setup(struct connection *connection) {
    static const uint8_t AVC_SETUP[] = {0x17, 0, 0, 0, 0, 1, 0x42, 0xC0, 0x1F, 0xFF, 0xE1, 0, 9, 0x67, 0x42,
                                        0xC0, 0x1F, 0xDA, 1, 0x40, 0x16, 0xE8, 1, 0, 4, 0x68, 0xCE, 0x3C, 0x80};
    static const uint8_t AAC_SETUP[] = {0xAF, 0, 0x12, 0x10};
    uint8_t metadata[256];
    uint8_t *at = write_string(write_string(metadata, "@setDataFrame"), "onMetaData");
    *at++ = 8;
    at = write_be(at, 4, 4);
    at = write_number(write_name(at, "width"), 1280);
    at = write_number(write_name(at, "height"), 720);
    at = write_number(write_name(at, "videocodecid"), 7);
    at = write_number(write_name(at, "audiocodecid"), 10);
    at = write_object_end(at);
    append(connection, &(struct message){.csid = DATA_CSID,
                                         .type = DATA,
                                         .message_stream_id = connection->message_stream_id,
                                         .payload = metadata,
                                         .length = (uint32_t)(at - metadata)});
    append_timed(connection, VIDEO, 0, AVC_SETUP, sizeof AVC_SETUP);
    append_timed(connection, AUDIO, 0, AAC_SETUP, sizeof AAC_SETUP);
}

static void publish_due(uint64_t until_ns) {
    for (struct rotation *rotation = next_rotation(); due_ns(rotation) <= until_ns; rotation = next_rotation()) {
        uint64_t due = due_ns(rotation);
        int stream;
        int64_t sequence = take_turn(rotation, &stream);
        struct connection *connection = &connections[stream];
        if (sequence < 0 || connection->state != LIVE) continue;
        if (sequence == 0 && rotation->kind == VIDEO) {
            append_setup(connection);
            connection->has_key_frame = true;
            with_key_frame++;
        }
        if (connection->backlog_end) stalled_sends++;
        uint32_t length = make_payload(rotation->kind, (uint32_t)sequence, (uint32_t)stream);
        append_timed(connection, rotation->kind, (uint32_t)((double)sequence * rotation->interval_ns / 1e6),
                     payload_scratch, length);
        send_backlog(connection);
        if (connection->backlog_end - connection->backlog_start > MAX_BACKLOG_BYTES) close_connection(connection);
        if (!is_in_window) continue;
        sent_messages++;
        count(&latenesses, now_ns() - due);
    }
}

/* ---- the run: dial, settle, warm up, measure ---- */

static double window_started_cpu_s, window_cpu_s;
static uint64_t window_started_ns, window_ended_ns, calls_before[2];
static int live_at_window_start;

static void print_event(const char *name) {
    fprintf(stderr, "{\"event\":\"%s\",\"monotonic_s\":%.6f,\"live\":%d,\"failed\":%d,\"dropped\":%d}\n", name,
            (double)now_ns() / 1e9, live, failed, dropped);
    fflush(stderr);
}

static void begin_window(void) {
    is_in_window = true;
    live_at_window_start = live;
    calls_before[0] = receive_calls, calls_before[1] = send_calls;
    window_started_ns = now_ns();
    window_started_cpu_s = own_cpu_s();
    print_event("window_start");
}

static void end_window(void) {
    window_ended_ns = now_ns();
    window_cpu_s = own_cpu_s() - window_started_cpu_s;
    print_event("window_end");
}

static double window_s(void) { return window_started_ns ? (double)(window_ended_ns - window_started_ns) / 1e9 : 0; }

static void read_slow_viewers(uint64_t at_ns) {
    for (int i = 0; i < options.connections; i++) {
        struct connection *connection = &connections[i];
        if (!connection->is_slow || connection->state != LIVE) continue;
        connection->allowance_bytes += options.slow_bytes_per_s * (double)(at_ns - connection->read_at_ns) / 1e9;
        connection->read_at_ns = at_ns;
        size_t room = connection->allowance_bytes < RECEIVE_BYTES ? (size_t)connection->allowance_bytes : RECEIVE_BYTES;
        uint64_t before_bytes = connection->received_bytes;
        if (room) receive(connection, room);
        connection->allowance_bytes -= (double)(connection->received_bytes - before_bytes);
        /* What a slow viewer could not read, because nothing was there, it does not catch up on. */
        double most_bytes = options.slow_bytes_per_s * 2 * PACE_NS / 1e9;
        if (connection->allowance_bytes > most_bytes) connection->allowance_bytes = most_bytes;
    }
}

static bool has_settled(void) {
    if (dialled < options.connections) return false;
    return (options.mode == IDLE ? live : with_key_frame) >= options.connections - closed;
}

static void handle_events(uint64_t timeout_ns) {
    struct epoll_event events[MAX_EVENTS];
    struct timespec timeout = {(time_t)(timeout_ns / NS_PER_S), (long)(timeout_ns % NS_PER_S)};
    int ready = epoll_pwait2(poller, events, MAX_EVENTS, &timeout, NULL);
    for (int i = 0; i < ready; i++) {
        struct connection *connection = events[i].data.ptr;
        if (connection->state == DIALLING) {
            begin_handshake(connection);
            continue;
        }
        if (connection->state != CLOSED && events[i].events & EPOLLOUT) send_backlog(connection);
        if (connection->state != CLOSED && events[i].events & ~(uint32_t)EPOLLOUT) receive(connection, RECEIVE_BYTES);
    }
}

static uint64_t seconds_ns(double seconds) { return (uint64_t)(seconds * 1e9); }

static void run_until_the_end(void) {
    uint64_t started_ns = now_ns(), paced_ns = started_ns, window_due_ns = 0;
    bool has_slow = options.slow_share > 0;
    double dial_s = options.connections / options.connections_per_s;
    uint64_t settle_until_ns =
        started_ns + seconds_ns(dial_s + options.settle_s + (options.mode == PUBLISH ? options.gop_s : 0));
    while (!is_stopped && closed < options.connections) {
        uint64_t now = now_ns(), wake_ns = now + 50 * NS_PER_MS;
        while (dialled < options.connections && (double)(now - started_ns) / 1e9 * options.connections_per_s >= dialled)
            dial(&connections[dialled]);
        if (dialled < options.connections) wake_ns = now + NS_PER_MS;
        if (options.mode == PUBLISH && !schedule_start_ns && live + closed == options.connections)
            schedule_start_ns = now + 5 * NS_PER_MS;
        if (options.mode == PUBLISH && schedule_start_ns) {
            publish_due(now);
            uint64_t next_due_ns = due_ns(next_rotation());
            if (next_due_ns < wake_ns) wake_ns = next_due_ns;
        }
        if (has_slow) {
            if (now >= paced_ns + PACE_NS) read_slow_viewers(now), paced_ns = now;
            if (paced_ns + PACE_NS < wake_ns) wake_ns = paced_ns + PACE_NS;
        }
        if (!window_due_ns && (has_settled() || now > settle_until_ns)) {
            print_event("ready");
            window_due_ns = now + seconds_ns(options.warmup_s);
        }
        if (window_due_ns && !is_in_window) {
            if (now >= window_due_ns) begin_window();
            else if (window_due_ns < wake_ns) wake_ns = window_due_ns;
        }
        if (is_in_window && options.seconds > 0) {
            uint64_t end_ns = window_started_ns + seconds_ns(options.seconds);
            if (now >= end_ns) break;
            if (end_ns < wake_ns) wake_ns = end_ns;
        }
        now = now_ns();
        handle_events(wake_ns > now ? wake_ns - now : 0);
    }
    end_window();
}

static void print_count(const char *name, uint64_t value) {
    printf(",\"%s\":%llu", name, (unsigned long long)value);
}

static void print_tally(const char *name, const struct tally *tally) {
    printf(",\"%s\":{", name);
    print_histogram("latency", &tally->latency);
    print_count("viewers", tally->viewers);
    print_count("messages", tally->messages);
    print_count("video_messages", tally->video_messages);
    print_count("bytes", tally->bytes);
    print_count("gaps", tally->gaps);
    print_count("missing", tally->missing);
    print_count("duplicates", tally->duplicates);
    print_count("reordered", tally->reordered);
    print_count("resumed_off_key", tally->resumed_off_key);
    printf("}");
}

static void print_common(void) {
    printf("{\"mode\":\"%s\",\"window_s\":%.4f,\"cpu_s\":%.4f,\"cpu_total_s\":%.4f", MODE_NAMES[options.mode],
           window_s(), window_cpu_s, own_cpu_s());
    print_count("connections", (uint64_t)options.connections);
    print_count("live_at_start", (uint64_t)live_at_window_start);
    print_count("live_at_end", (uint64_t)live);
    print_count("failed", (uint64_t)failed);
    print_count("dropped", (uint64_t)dropped);
    print_count("receive_calls", receive_calls - calls_before[0]);
    print_count("send_calls", send_calls - calls_before[1]);
    print_count("wire_bytes_in", wire_bytes_in);
    print_count("wire_bytes_out", wire_bytes_out);
}

static void print_result(void) {
    print_common();
    if (options.mode == PUBLISH) {
        print_count("sent_messages", sent_messages);
        print_count("stalled_sends", stalled_sends);
        printf(",");
        print_histogram("lateness", &latenesses);
    } else if (options.mode != IDLE) {
        print_count("with_key_frame", (uint64_t)with_key_frame);
        print_count("corrupt_messages", corrupt_messages);
        print_count("protocol_errors", protocol_errors);
        print_count("checked_bytes", checked_bytes);
        print_tally("steady", &tallies[0]);
        print_tally("slow", &tallies[1]);
        printf(",");
        print_histogram("first_key_frame", &first_key_frames);
    }
    printf("}\n");
    fflush(stdout);
}

static void prepare_connections(void) {
    poller = epoll_create1(EPOLL_CLOEXEC);
    receive_buffer = allocate(RECEIVE_BYTES);
    connections = allocate(sizeof *connections * (size_t)options.connections);
    for (int i = 0; i < options.connections; i++) {
        struct connection *connection = &connections[i];
        connection->stream = i % options.streams;
        connection->checks_all = options.check_every && i % options.check_every == 0;
        /* Evenly among the others: each time the share adds up to one more. */
        connection->is_slow =
            options.mode == PLAY && (int)((i + 1) * options.slow_share) > (int)(i * options.slow_share);
        if (options.mode == PLAY || options.mode == FLOOR) tallies[connection->is_slow].viewers++;
    }
}

/* ---- the floor: what the kernel alone asks for the same bytes ---- */

static void pin(int cpu) {
    cpu_set_t cpus;
    if (cpu < 0) return;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) refuse("cannot run on CPU %d: %s", cpu, strerror(errno));
}

/* The child: the same viewers as in play, from after the handshake on, until the writer hangs up. */
static int run_floor_reader(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(options.reader_cpu);
    prepare_connections();
    for (int i = 0; i < options.connections; i++) {
        struct connection *connection = &connections[i];
        connection->chunk_bytes_in = (uint32_t)options.chunk_bytes;
        connection->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(connection->socket, (struct sockaddr *)&options.address, sizeof options.address)) return 1;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        epoll_ctl(poller, EPOLL_CTL_ADD, connection->socket, &event);
        go_live(connection);
        dialled++;
    }
    options.seconds = 0;
    run_until_the_end();
    print_result();
    return 0;
}

struct floor_log {
    int file;
    uint8_t *bytes;
    size_t head, room;
};

static void append_to_log(struct floor_log *log, uint32_t kind, uint32_t sequence, double interval_ns) {
    uint32_t length = make_payload(kind, sequence, 0);
    struct message message = {.csid = kind == VIDEO ? VIDEO_CSID : AUDIO_CSID,
                              .type = kind,
                              .message_stream_id = 1,
                              .time_ms = (uint32_t)(sequence * interval_ns / 1e6),
                              .payload = payload_scratch,
                              .length = length};
    if (log->head + chunked_bytes(length, (uint32_t)options.chunk_bytes) > log->room)
        refuse("the floor's log of %zu bytes is full", log->room);
    log->head = (size_t)(write_message(log->bytes + log->head, &message, options.chunk_bytes) - log->bytes);
}

/* What a socket did not take is sent with the next flush. */
static uint64_t flush_log(const struct floor_log *log, const int *sockets, off_t *positions) {
    uint64_t sent_bytes = 0;
    for (int i = 0; i < options.connections; i++) {
        size_t pending = log->head - (size_t)positions[i];
        if (!pending) continue;
        ssize_t sent;
        send_calls++;
        if (options.by_sendfile) {
            sent = sendfile(sockets[i], log->file, &positions[i], pending);
        } else {
            sent = write(sockets[i], log->bytes + positions[i], pending);
            if (sent > 0) positions[i] += sent;
        }
        if (sent < 0 && errno != EAGAIN) refuse("the floor's reader is gone: %s", strerror(errno));
        if (sent > 0) sent_bytes += (uint64_t)sent;
        if (sent != (ssize_t)pending) stalled_sends++;
    }
    return sent_bytes;
}

static void sleep_until(uint64_t at_ns) {
    struct timespec at = {(time_t)(at_ns / NS_PER_S), (long)(at_ns % NS_PER_S)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void write_floor(struct floor_log *log, const int *sockets) {
    off_t *positions = allocate(sizeof *positions * (size_t)options.connections);
    uint64_t grid_ns = options.flush_grid_ms > 0 ? (uint64_t)(options.flush_grid_ms * 1e6) : 0;
    schedule_start_ns = now_ns() + 50 * NS_PER_MS;
    uint64_t flush_due_ns = schedule_start_ns + grid_ns,
             window_due_ns = schedule_start_ns + seconds_ns(options.warmup_s);
    while (!is_stopped) {
        struct rotation *rotation = next_rotation();
        uint64_t message_due_ns = due_ns(rotation);
        bool is_flush = grid_ns && flush_due_ns <= message_due_ns;
        sleep_until(is_flush ? flush_due_ns : message_due_ns);
        if (!is_in_window && now_ns() >= window_due_ns) begin_window();
        if (is_in_window && now_ns() >= window_started_ns + seconds_ns(options.seconds)) break;
        if (is_flush) {
            flush_due_ns += grid_ns;
        } else {
            int stream;
            int64_t sequence = take_turn(rotation, &stream);
            append_to_log(log, rotation->kind, (uint32_t)sequence, rotation->interval_ns);
            bool rides_along = options.flush_grid_ms < 0 && rotation->kind == AUDIO;
            if (grid_ns || rides_along) continue;
        }
        uint64_t sent_bytes = flush_log(log, sockets, positions);
        if (is_in_window) wire_bytes_out += sent_bytes;
    }
    end_window();
    free(positions);
}

static int run_floor(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), results[2];
    socklen_t address_bytes = sizeof options.address;
    options.address.sin_port = 0;
    if (bind(listener, (struct sockaddr *)&options.address, address_bytes) || listen(listener, 4096))
        refuse("cannot listen");
    getsockname(listener, (struct sockaddr *)&options.address, &address_bytes);
    if (pipe(results)) refuse("no pipe: %s", strerror(errno));
    pid_t reader = fork();
    if (reader < 0) refuse("no reader: %s", strerror(errno));
    if (!reader) {
        close(listener);
        dup2(results[1], STDOUT_FILENO);
        /* The writer's events are the ones to follow. */
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        exit(run_floor_reader());
    }
    close(results[1]);
    pin(options.writer_cpu);
    int *sockets = allocate(sizeof *sockets * (size_t)options.connections);
    for (int i = 0; i < options.connections; i++) {
        sockets[i] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (sockets[i] < 0) refuse("accept: %s", strerror(errno));
        setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    }
    live = options.connections;
    /* As long as the whole run, since bytes that a socket still holds must not be written over. */
    double log_bytes =
        (options.video_bps + options.audio_bps) / 8 * (options.warmup_s + options.seconds + options.gop_s + 2) * 1.1;
    struct floor_log log = {.file = memfd_create("floor", MFD_CLOEXEC),
                            .room = (size_t)log_bytes + 4 * max_payload_bytes};
    if (log.room > MAX_FLOOR_LOG_BYTES) refuse("a log of %zu bytes is above %llu", log.room, MAX_FLOOR_LOG_BYTES);
    if (log.file < 0 || ftruncate(log.file, (off_t)log.room)) refuse("no memfd: %s", strerror(errno));
    log.bytes = mmap(NULL, log.room, PROT_READ | PROT_WRITE, MAP_SHARED, log.file, 0);
    if (log.bytes == MAP_FAILED) refuse("no mapping of %zu bytes", log.room);
    write_floor(&log, sockets);
    for (int i = 0; i < options.connections; i++) close(sockets[i]);
    char reader_result[8192] = "null";
    size_t result_bytes = 0;
    for (ssize_t got;
         (got = read(results[0], reader_result + result_bytes, sizeof reader_result - 1 - result_bytes)) > 0;)
        result_bytes += (size_t)got;
    if (result_bytes) reader_result[result_bytes] = 0;
    waitpid(reader, NULL, 0);
    print_common();
    print_count("stalled_sends", stalled_sends);
    printf(",\"reader\":%s}\n", reader_result);
    return 0;
}

/* ---- options ---- */

static void read_host(const char *text) {
    if (inet_pton(AF_INET, text, &options.address.sin_addr) != 1 || ntohl(options.address.sin_addr.s_addr) >> 24 != 127)
        refuse("%s is not an IPv4 loopback address", text);
}

static const struct option_row {
    const char *name;
    enum { REAL, WHOLE, TEXT } kind;
    void *value;
    double least, most; /* of a text: its length */
} OPTION_ROWS[] = {
    {"host", TEXT, &options.host, 7, 15},
    {"port", WHOLE, &options.port, 1, 65535},
    {"http-port", WHOLE, &options.http_port, 0, 65535},
    {"app", TEXT, &options.app, 1, 200},
    {"name", TEXT, &options.name, 1, 100},
    {"streams", WHOLE, &options.streams, 1, 100000},
    {"connections", WHOLE, &options.connections, 1, 100000},
    {"connections-per-s", REAL, &options.connections_per_s, 0.1, 1e6},
    {"seconds", REAL, &options.seconds, 0, 1e5},
    {"warmup-s", REAL, &options.warmup_s, 0, 1e5},
    {"settle-s", REAL, &options.settle_s, 0, 1e5},
    {"video-bps", REAL, &options.video_bps, 1e3, 1e9},
    {"audio-bps", REAL, &options.audio_bps, 1e3, 1e8},
    {"fps", REAL, &options.fps, 0.1, 1000},
    {"audio-per-s", REAL, &options.audio_per_s, 0, 1000},
    {"gop-s", REAL, &options.gop_s, 0.01, 1000},
    {"key-ratio", REAL, &options.key_ratio, 1, 1000},
    {"key-bytes", WHOLE, &options.key_bytes, 64, 0xFFFFFF},
    {"chunk-bytes", WHOLE, &options.chunk_bytes, 1, 0xFFFFFF},
    {"check-every", WHOLE, &options.check_every, 0, 1e6},
    {"slow-share", REAL, &options.slow_share, 0, 1},
    {"slow-bytes-per-s", REAL, &options.slow_bytes_per_s, 1, 1e9},
    {"slow-receive-buffer", WHOLE, &options.slow_receive_buffer_bytes, 1024, 1e9},
    {"flush", TEXT, &options.flush, 1, 8},
    {"by", TEXT, &options.by, 5, 8},
    {"writer-cpu", WHOLE, &options.writer_cpu, 0, CPU_SETSIZE - 1},
    {"reader-cpu", WHOLE, &options.reader_cpu, 0, CPU_SETSIZE - 1},
};

static double read_bounded(const char *name, const char *text, double least, double most) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= least && number <= most))
        refuse("--%s %s is not a number from %g to %g", name, text, least, most);
    return number;
}

static void read_option(const char *name, const char *text) {
    const struct option_row *row = OPTION_ROWS, *end = OPTION_ROWS + sizeof OPTION_ROWS / sizeof *OPTION_ROWS;
    while (row < end && (strncmp(name, "--", 2) || strcmp(name + 2, row->name))) row++;
    if (row == end) refuse("%s is no option", name);
    if (!text) refuse("%s needs a value", name);
    if (row->kind == REAL) *(double *)row->value = read_bounded(row->name, text, row->least, row->most);
    if (row->kind == WHOLE) *(int *)row->value = (int)read_bounded(row->name, text, row->least, row->most);
    if (row->kind != TEXT) return;
    if (strlen(text) < row->least || strlen(text) > row->most) refuse("%s %s is too short or too long", name, text);
    *(const char **)row->value = text;
}

static void read_options(int argument_count, char **arguments) {
    for (int i = 0; i < argument_count; i += 2)
        read_option(arguments[i], i + 1 < argument_count ? arguments[i + 1] : NULL);
    options.address.sin_family = AF_INET;
    if (options.http_port && options.mode != PLAY) refuse("--http-port is for viewers");
    options.address.sin_port = htons((uint16_t)(options.http_port ? options.http_port : options.port));
    read_host(options.host);
    if (!strcmp(options.flush, "frame")) options.flush_grid_ms = -1;
    else if (strcmp(options.flush, "message")) options.flush_grid_ms = read_bounded("flush", options.flush, 1, 10000);
    options.by_sendfile = !strcmp(options.by, "sendfile");
    if (!options.by_sendfile && strcmp(options.by, "write"))
        refuse("--by %s is neither write nor sendfile", options.by);
    if (options.mode == FLOOR) options.streams = 1;
    if (options.mode == PUBLISH || !options.connections) options.connections = options.streams;
}

static void read_mode(const char *text) {
    for (int mode = PUBLISH; mode <= FLOOR; mode++) {
        if (strcmp(text, MODE_NAMES[mode])) continue;
        options.mode = (enum mode)mode;
        return;
    }
    refuse("%s is none of publish, play, idle, floor", text);
}

int main(int argument_count, char **arguments) {
    if (argument_count < 2) refuse("give publish, play, idle or floor, and options");
    read_mode(arguments[1]);
    read_options(argument_count - 2, arguments + 2);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    struct sigaction stop = {.sa_handler = on_stop};
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    prepare_media();
    prepare_schedule();
    if (options.mode == FLOOR) return run_floor();
    prepare_connections();
    run_until_the_end();
    print_result();
    return 0;
}
