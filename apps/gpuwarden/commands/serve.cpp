// SPDX-License-Identifier: Apache-2.0
// gpuwarden serve: its options; what it does stands in serve/, in a program of its own.
#include "serve/run_server.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kServeOptions = std::to_array<Option>({
    {"--listen", OptionKind::text, "ADDRESS:PORT", "where to listen (127.0.0.1:10478); port 0: a free one"},
    {"--interval", OptionKind::text, "DURATION", "time between readings, 100ms to 10m (1s)"},
    {"--remember", OptionKind::text, "DURATION", "history that is kept in memory (1h)"},
    {"--store", OptionKind::text, "FILE", "history that is kept on disk, too"},
    {"--rules", OptionKind::text, "FILE",
     "YAML with alert rules and whom to tell (docs/alerts.md); SIGHUP reads it anew"},
    {"--state", OptionKind::text, "FILE", "where alerts and silences survive a restart"},
    {"--expect-gpus", OptionKind::text, "N", "how many GPUs there should be (as many as were ever seen)"},
});

constexpr auto kMetricsOptions = std::to_array<Option>({
    {"--metrics-dialect", OptionKind::text, "DIALECT", "names of the metrics: gpuwarden, dcgm-legacy or dcgm-4.9",
     "gpuwarden dcgm-legacy dcgm-4.9"},
    {"--hostname-label", OptionKind::flag, "", "the host's name as a label of every GPU's metrics"},
    {"--hpc-job-mapping-dir", OptionKind::text, "DIR", "a file with job ids for each GPU, as dcgm-exporter reads them"},
    {"--max-series", OptionKind::text, "N", "processes and users that have metrics, each, at most (500)"},
    {"--list-metrics", OptionKind::flag, "", "print the names of the dialect, given and omitted, and end"},
    {"--print", OptionKind::text, "WHAT",
     "print a file and end: prometheus-rules, grafana-dashboard, scrape-config (of --peers)",
     "prometheus-rules grafana-dashboard scrape-config"},
});

constexpr auto kPeersOptions = std::to_array<Option>({
    {"--peers", OptionKind::text, "FILE|dns:NAME:PORT",
     "other machines that run gpuwarden serve, to show with this one"},
    {"--peers-token-file", OptionKind::text, "FILE", "the token that they want"},
    {"--peers-interval", OptionKind::text, "DURATION", "how often each is asked (5s)"},
});

constexpr auto kSecurityOptions = std::to_array<Option>({
    {"--token-file", OptionKind::text, "FILE",
     "a secret that callers send; needed where others than loopback may call"},
    {"--allow-actions", OptionKind::flag, "", "callers with the token may acknowledge, silence, signal and disable"},
    {"--allow-host", OptionKind::repeated, "NAME", "another name under which the server is asked for"},
    {"--tls-cert", OptionKind::text, "FILE", "PEM certificate: speak TLS"},
    {"--tls-key", OptionKind::text, "FILE", "its key"},
    {"--user", OptionKind::text, "NAME", "whom to become where root started it (gpuwarden, else nobody)"},
    {"--keep", OptionKind::repeated, "RIGHT",
     "a right that a small helper process of root's keeps: power (set power limits), signal (to processes of the user "
     "who asks), disable (for everybody)",
     "power signal disable"},
});

}  // namespace

constinit const Subcommand kServeCommand{
    .name = "serve",
    .summary = "metrics for Prometheus, a JSON API and a page with the GPUs, live",
    .usage = "gpuwarden serve [--listen 127.0.0.1:10478] [--metrics-dialect dcgm-legacy] [--token-file FILE]",
    .groups = {OptionGroup{kServeOptions}, OptionGroup{kMetricsOptions, "metrics"},
               OptionGroup{kSecurityOptions, "who may do what"}, OptionGroup{kPeersOptions, "many machines"}},
    .rest = Rest::none,
    .details =
        "Listens on loopback unless told otherwise. Another address needs a token; with --tls-cert and --tls-key "
        "it speaks TLS. /metrics, /api/v1/openapi.json, /-/ready and the page at / are answered (docs/serve.md). "
        "SIGHUP reads the rules anew, SIGTERM ends it in order; under systemd it tells when it is ready.",
    .run = run_server};

}  // namespace gpuwarden::cli
