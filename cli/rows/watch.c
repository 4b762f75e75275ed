// watch.c: `report --watch` serves the page of trainings from 127.0.0.1, read only, and follows them. The library is
// opened at run time: a program without it only lacks this flag.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/curves/curves.h"
#include "bench/rows/digest.h"
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "cli/rows/rows.h"

// --- libmicrohttpd, as its manual declares it --------------------------------------------------------

enum {
    MHD_OPTION_END = 0,
    MHD_OPTION_CONNECTION_LIMIT = 2,
    MHD_OPTION_CONNECTION_TIMEOUT = 3,
    MHD_OPTION_LISTEN_SOCKET = 12,
    MHD_HEADER_KIND = 1,
    MHD_RESPMEM_MUST_COPY = 2
};

typedef int handler(void *ctx, void *connection, const char *url, const char *method, const char *version,
                    const char *upload, size_t *upload_size, void **of_connection);

static struct {
    void *(*start_daemon)(unsigned flags, uint16_t port, void *accept, void *accept_ctx, handler *handle, void *ctx,
                          ...);
    int (*run_wait)(void *daemon, int32_t ms);
    void (*stop_daemon)(void *daemon);
    const char *(*lookup_connection_value)(void *connection, int kind, const char *key);
    void *(*create_response_from_buffer)(size_t size, void *text, int mode);
    int (*add_response_header)(void *response, const char *name, const char *value);
    int (*queue_response)(void *connection, unsigned code, void *response);
    void (*destroy_response)(void *response);
} mhd;

static sm_status open_library(void) {
    void *library = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    bool whole = library != NULL;
#define FIND(function)                                                  \
    do {                                                                \
        void *symbol = whole ? dlsym(library, "MHD_" #function) : NULL; \
        memcpy(&mhd.function, &symbol, sizeof(symbol));                 \
        whole = symbol != NULL;                                         \
    } while (0)
    FIND(start_daemon);
    FIND(run_wait);
    FIND(stop_daemon);
    FIND(lookup_connection_value);
    FIND(create_response_from_buffer);
    FIND(add_response_header);
    FIND(queue_response);
    FIND(destroy_response);
#undef FIND
    return whole ? SM_OK
                 : sm_fail(SM_ERR_UNSUPPORTED, "--watch: needs libmicrohttpd.so.12 of version 0.9.72 or newer; install "
                                               "libmicrohttpd12, or make a page with --output");
}

// --- the page ----------------------------------------------------------------------------------------

typedef struct {
    const cli_options *options;
    int port;
    char *page; // NULL: none yet
    size_t page_bytes;
    char digest[SM_DIGEST_SIZE]; // of the sizes and times of the files that it was made from
} watch;

// Sizes and times of the files of all trainings.
static void look(const cli_options *options, char digest[SM_DIGEST_SIZE]) {
    static const char *const names[] = {"", "/log.jsonl", "/run.json", "/RUN_COMPLETE.txt"};
    enum { N_NAMES = sizeof(names) / sizeof(names[0]), N_FACTS = 3 };
    uint64_t sum = 0;
    for (int i = 0; i < options->n_operands * N_NAMES; i++) {
        char path[PATH_MAX];
        struct stat found = {.st_size = -1};
        snprintf(path, sizeof(path), "%s%s", options->operands[i / N_NAMES], names[i % N_NAMES]);
        (void)stat(path, &found);
        const int64_t facts[N_FACTS + 1] = {(int64_t)sum, (int64_t)found.st_size, (int64_t)found.st_mtim.tv_sec,
                                            (int64_t)found.st_mtim.tv_nsec};
        sm_digest_bytes(facts, sizeof(facts), digest);
        sum = strtoull(strrchr(digest, ':') + 1, NULL, 16);
    }
}

// Reloads when something has changed, and returns to the place. A hidden page waits.
static void put_script(const char *digest, FILE *out) {
    fprintf(out,
            "<script>history.scrollRestoration = \"manual\";\n"
            "document.documentElement.style.overflowAnchor = \"none\"; // pictures grow while they are drawn\n"
            "addEventListener(\"load\", () => scrollTo(0, +sessionStorage.getItem(\"place\")));\n"
            "setInterval(async () => {\n"
            "    if (document.hidden) return;\n"
            "    const digest = await fetch(\"/digest\").then(r => r.ok ? r.text() : null).catch(() => null);\n"
            "    if (digest === null || digest === \"%s\") return;\n"
            "    sessionStorage.setItem(\"place\", scrollY);\n"
            "    location.reload();\n"
            "}, 3000);</script>\n",
            digest);
}

// A page as a file may ask nobody; this one may ask its server.
static void put_page(const char *text, const char *digest, FILE *out) {
    static const char policy[] = "default-src 'none'";
    const char *place = strstr(text, policy);
    const size_t n = place != NULL ? (size_t)(place - text) + strlen(policy) : 0;
    fwrite(text, 1, n, out);
    fputs(n > 0 ? "; connect-src 'self'" : "", out);
    fputs(text + n, out);
    put_script(digest, out);
}

static sm_status make_page(watch *w, const char *digest) {
    sm_curves curves;
    char *text = NULL;
    char *served = NULL;
    size_t size_bytes = 0;
    SM_TRY(sm_curves_read(w->options->operands, w->options->n_operands, &curves));
    FILE *out = open_memstream(&text, &size_bytes);
    sm_status status = out != NULL ? sm_curves_page(&curves, true, out) : SM_ERR_OOM;
    bool whole = out != NULL && fclose(out) == 0;
    sm_curves_free(&curves);
    out = status == SM_OK && whole ? open_memstream(&served, &size_bytes) : NULL;
    if (out != NULL) {
        put_page(text, digest, out);
    }
    whole = out != NULL && fclose(out) == 0;
    free(text);
    if (!whole) {
        free(served);
        return status != SM_OK && status != SM_ERR_OOM ? status : sm_fail(SM_ERR_OOM, "no memory for a page");
    }
    free(w->page);
    w->page = served;
    w->page_bytes = size_bytes;
    memcpy(w->digest, digest, SM_DIGEST_SIZE);
    return SM_OK;
}

// Makes it again only if a file has changed.
static sm_status renew_page(watch *w) {
    char digest[SM_DIGEST_SIZE];
    look(w->options, digest);
    return w->page != NULL && strcmp(digest, w->digest) == 0 ? SM_OK : make_page(w, digest);
}

// --- requests ----------------------------------------------------------------------------------------

static int reply(void *connection, unsigned code, const char *type, const char *text, size_t size_bytes) {
    static const char *const headers[][2] = {
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                                    "img-src data: blob:; connect-src 'self'; frame-ancestors 'none'"}};
    void *response = mhd.create_response_from_buffer(size_bytes, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (response == NULL) {
        return 0; // which closes the connection
    }
    mhd.add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        mhd.add_response_header(response, headers[i][0], headers[i][1]);
    }
    const int queued = mhd.queue_response(connection, code, response);
    mhd.destroy_response(response);
    return queued;
}

static int reply_text(void *connection, unsigned code, const char *text) {
    return reply(connection, code, "text/plain; charset=utf-8", text, strlen(text));
}

// Another name may be one of a stranger's page that now points here (DNS rebinding).
static bool is_own_host(const watch *w, const char *host) {
    static const char *const names[] = {"127.0.0.1", "localhost"};
    char with_port[64];
    for (size_t i = 0; host != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(with_port, sizeof(with_port), "%s:%d", names[i], w->port);
        if (strcmp(host, with_port) == 0 || (w->port == 80 && strcmp(host, names[i]) == 0)) {
            return true;
        }
    }
    return false;
}

static int answer(void *ctx, void *connection, const char *url, const char *method, const char *version,
                  const char *upload, size_t *upload_size, void **of_connection) {
    watch *w = ctx;
    char digest[SM_DIGEST_SIZE];
    (void)version, (void)upload, (void)upload_size, (void)of_connection;
    if (!is_own_host(w, mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Host"))) {
        return reply_text(connection, 403, "open it as 127.0.0.1 or localhost\n");
    }
    if (strcmp(method, "GET") != 0) {
        return reply_text(connection, 405, "only GET\n");
    }
    if (strcmp(url, "/digest") == 0) {
        look(w->options, digest);
        return reply_text(connection, 200, digest);
    }
    if (strcmp(url, "/") != 0) {
        return reply_text(connection, 404, "only / is here\n");
    }
    if (renew_page(w) != SM_OK) {
        return reply_text(connection, 503, sm_error_message());
    }
    return reply(connection, 200, "text/html; charset=utf-8", w->page, w->page_bytes);
}

// --- serving -----------------------------------------------------------------------------------------

// A listening socket on 127.0.0.1.
static sm_status open_socket(watch *w, int *fd) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)w->options->out.port)};
    socklen_t size_bytes = sizeof(address);
    const int yes = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        bind(*fd, (struct sockaddr *)&address, size_bytes) != 0 || listen(*fd, SOMAXCONN) != 0 ||
        getsockname(*fd, (struct sockaddr *)&address, &size_bytes) != 0) {
        const int error = errno;
        if (*fd >= 0) {
            close(*fd);
        }
        return sm_fail(SM_ERR_IO, "--port: %lld: %s; 0 takes a free one", (long long)w->options->out.port,
                       strerror(error));
    }
    w->port = ntohs(address.sin_port);
    return SM_OK;
}

sm_status cli_report_watch(const cli_options *options) {
    enum { WAIT_MS = 200, MOST_CONNECTIONS = 32, IDLE_S = 10 };
    watch w = {.options = options};
    int fd;
    SM_TRY(open_library());
    SM_TRY(renew_page(&w)); // an error is told here rather than in the browser
    sm_status status = open_socket(&w, &fd);
    if (status == SM_OK) {
        void *daemon = mhd.start_daemon(0, 0, NULL, NULL, answer, &w, MHD_OPTION_LISTEN_SOCKET, fd,
                                        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
                                        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
        status = daemon != NULL ? SM_OK : sm_fail(SM_ERR_IO, "--watch: the server does not start");
        if (daemon != NULL) {
            printf("http://127.0.0.1:%d/\n", w.port);
            fflush(stdout);
            cli_note("follows %d training%s; Ctrl-C ends it", options->n_operands,
                     sm_plural((size_t)options->n_operands));
        }
        while (daemon != NULL && !cli_interrupted && mhd.run_wait(daemon, WAIT_MS) != 0) {
        }
        if (daemon != NULL) {
            mhd.stop_daemon(daemon); // and closes the socket
        } else {
            close(fd);
        }
    }
    free(w.page);
    return status;
}
