// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "gpuwarden/redact/redact.hpp"

namespace gpuwarden::redact {
namespace {

/// A redactor that knows these names, and those in `text`.
std::string anonymous(std::string_view text, const Identities& names = {}) {
  Redactor redactor({}, &names);
  redactor.learn(text);
  Removals removed;
  return redactor.redact(text, removed);
}

TEST(Anonymize, NothingHappensToNamesUnlessItIsAskedFor) {
  constexpr std::string_view kText = "jane@node7:~/x$ ls /home/jane 10.1.2.3 GPU-5fd4a1c2-3b7e-4c1d-9e8f-0123456789ab";
  Redactor redactor;
  redactor.learn(kText);
  Removals removed;
  EXPECT_FALSE(redactor.anonymizes());
  EXPECT_EQ(redactor.redact(kText, removed), kText);
  EXPECT_TRUE(removed.empty());
}

TEST(Anonymize, TheSameNameGetsTheSameStandInInEveryText) {
  const Identities names{.users = {"jane"}, .hosts = {"node7.lab.example.org"}};
  Redactor redactor({}, &names);
  redactor.learn("/home/bob/data");
  redactor.learn("USER=carol\nHOSTNAME=node8");
  Removals removed;
  EXPECT_EQ(redactor.redact("jane and bob on node7", removed), "user-1 and user-2 on host-1");
  EXPECT_EQ(redactor.redact("node8: carol, jane", removed), "host-2: user-3, user-1");
  EXPECT_EQ(redactor.redact("node7.lab.example.org", removed), "host-1.domain-1.example");
  EXPECT_EQ(redactor.redact("janet, node77, my_jane", removed), "janet, node77, my_jane") << "other words";
  EXPECT_EQ(removed.at(Removed::user), 4U);
  EXPECT_EQ(removed.at(Removed::host), 3U);
}

TEST(Anonymize, NamesAreLearnedFromWhereTheyStand) {
  EXPECT_EQ(anonymous("/home/jane/x"), "/home/user-1/x");
  EXPECT_EQ(anonymous("/Users/jane/x"), "/Users/user-1/x");
  EXPECT_EQ(anonymous("C:\\Users\\jane\\x"), "C:\\Users\\user-1\\x");
  EXPECT_EQ(anonymous("/home/li/x likes li"), "/home/user-1/x likes li") << "two letters are too little for a word";
  EXPECT_EQ(anonymous("jane@node7:~/x$ nvidia-smi"), "user-1@host-1:~/x$ nvidia-smi");
  EXPECT_EQ(anonymous("Nov 20 10:00:00 node7 kernel: NVRM: Xid\nnode7 down"),
            "Nov 20 10:00:00 host-1 kernel: NVRM: Xid\nhost-1 down");
  EXPECT_EQ(anonymous("Nov 20 10:00:00 vm kernel: in a vm"), "Nov 20 10:00:00 host-1 kernel: in a vm");
  EXPECT_EQ(anonymous("Linux node7 6.1.0-18-amd64 #1 SMP"), "Linux host-1 6.1.0-18-amd64 #1 SMP");
  EXPECT_EQ(anonymous("mail jane.doe@lab.example.org now"), "mail user-1@domain-1.example now");
}

TEST(Anonymize, HostsAreLearnedFromAssignmentsOfEveryForm) {
  EXPECT_EQ(anonymous("hostname: node-a12\non node-a12"), "hostname: host-1\non host-1");
  EXPECT_EQ(anonymous("RANK=3 HOSTNAME=box9 on box9"), "RANK=3 HOSTNAME=host-1 on host-1");
  EXPECT_EQ(anonymous(R"({"log": "{\"Hostname\": \"box9\"}"} box9)"),
            R"({"log": "{\"Hostname\": \"host-1\"}"} host-1)");
  EXPECT_EQ(anonymous("NodeName=gpu17 CPUs=8"), "NodeName=host-1 CPUs=8");
  EXPECT_EQ(anonymous("\x1b[32mjane@node7\x1b[0m:\x1b[34m~/x$ \x1b[1mnode7"),
            "\x1b[32muser-1@host-1\x1b[0m:\x1b[34m~/x$ \x1b[1mhost-1");
}

TEST(Anonymize, HostIsAKeyWhereItsValueIsAName) {
  EXPECT_EQ(anonymous("Host: orion\nto orion"), "Host: host-1\nto host-1");
  EXPECT_EQ(anonymous("> Host: node7.lab.example.org:8000"), "> Host: host-1.domain-1.example:8000");
  EXPECT_EQ(anonymous(R"({"host": "orion", "port": 1})"), R"({"host": "host-1", "port": 1})");
  EXPECT_EQ(anonymous("connect(host='orion')"), "connect(host='host-1')");
  EXPECT_EQ(anonymous("  host=dgx-a, rank 3"), "  host=host-1, rank 3");
  for (const char* text : {"host: copying tensors", "Host: x86_64-pc-linux-gnu", "host=cfg.address)", "Host: memory",
                           "host: 12.3 ms", "host=str(name)", "host: v1 of it", "[Host: Intel CPU]"})
    EXPECT_EQ(anonymous(text), text);
}

TEST(Anonymize, AddressesInNamesAndListsOfHostsGo) {
  EXPECT_EQ(anonymous("tcp://ip-10-1-2-3.ec2.internal:29500"), "tcp://host-1.domain-1.example:29500");
  EXPECT_EQ(anonymous("on gpu-[17-19]: gpu-18 died"), "on host-4: host-2 died");
  EXPECT_EQ(anonymous("node[01-02,07] idle"), "host-4 idle");
  EXPECT_EQ(anonymous("SLURM_JOB_NODELIST=gpu[3,5]"), "SLURM_JOB_NODELIST=host-3");
  for (const char* text : {"values[0-3] x[12] epoch[1,2] cuda-[x]", "a-[9-1]", "hostname: str = socket.gethostname()",
                           "hostname = socket.gethostname()", "ip-1 ip-10-1", "USER: process exited, process 2"})
    EXPECT_EQ(anonymous(text), text);
}

TEST(Anonymize, ManyNamesTakeNoTimeForEachByteOfText) {
  std::string text;
  for (int i = 0; i < 30000; ++i) text += "/home/person" + std::to_string(i) + "/x of the same home\n";
  const std::string after = anonymous(text);
  EXPECT_FALSE(after.contains("person"));
  EXPECT_TRUE(after.contains("/home/user-30000/"));
}

TEST(Anonymize, NamesOfSeveralWordsAndOfOtherAlphabetsAreFound) {
  const Identities names{.users = {"jane", "jane.doe", "j\xc3\xbcrgen", "\xc3\xb6zg\xc3\xbcr"},
                         .domains = {"lab.example.org"}};
  EXPECT_EQ(
      anonymous("jane, jane.doe, (j\xc3\xbcrgen) \xe2\x94\x82\xc3\xb6zg\xc3\xbcr\xe2\x94\x82 x.lab.example.org", names),
      "user-1, user-2, (user-3) \xe2\x94\x82user-4\xe2\x94\x82 x.domain-1.example");
}

TEST(Anonymize, WordsThatNameNobodyStay) {
  for (const char* text : {"/home/ubuntu/x", "root@localhost: user=root", "git@github.com:org/repo.git",
                           "actions/checkout@v4", "torch @ file:///x", "python train.py on cuda"})
    EXPECT_EQ(anonymous(text), text);
}

TEST(Anonymize, HomesOutsideOfHomeGetTheirUsersStandIn) {
  const Identities names{.users = {"jane"}, .homes = {"/data/people/jane", "/root", "/"}};
  EXPECT_EQ(anonymous("/data/people/jane/run /root/x /etc", names), "/home/user-1/run /root/x /etc");
}

TEST(Anonymize, AddressesGoAndVersionsStay) {
  EXPECT_EQ(anonymous("from 10.1.2.3:29500 to 10.1.2.4, again 10.1.2.3."), "from ip-1:29500 to ip-2, again ip-1.");
  EXPECT_EQ(anonymous("inet6 fe80::a1b:2c3d/64 2001:db8:0:1:2:3:4:5"), "inet6 ip-1/64 ip-2");
  EXPECT_EQ(anonymous("ether a0:36:9f:12:34:56 up"), "ether mac-1 up");
  for (const char* text :
       {"127.0.0.1 0.0.0.0 255.255.255.0 ::1", "nvidia-cublas-cu12==12.4.5.8", "nvidia-cudnn-cu12         9.1.0.70",
        "cuDNN version: 9.1.0.70", "libcudnn.so.9.1.0.70", "ii  libcudnn9 9.1.0.70-1 amd64",
        "PCI 0000:17:00.0 00000000:17:00.0", "at 12:34:56 c10::Error", "VBIOS Version : 96.00.89.00.01",
        "driver 550.54.15.1", "std::dead::beef"})
    EXPECT_EQ(anonymous(text), text);
}

TEST(Anonymize, UuidsKeepTheirFormAndTheirAbbreviationsStillNameThem) {
  const Identities names{
      .uuids = {"GPU-5fd4a1c2-3b7e-4c1d-9e8f-0123456789ab", "GPU-aaaabbbb-3b7e-4c1d-9e8f-0123456789ab"}};
  EXPECT_EQ(anonymous("(UUID: GPU-aaaabbbb-3b7e-4c1d-9e8f-0123456789ab)", names),
            "(UUID: GPU-00000002-0000-0000-0000-000000000000)");
  EXPECT_EQ(anonymous("CUDA_VISIBLE_DEVICES=GPU-5fd4,GPU-aaaab", names),
            "CUDA_VISIBLE_DEVICES=GPU-00000001-0000-0000-0000-000000000000,GPU-00000002-0000-0000-0000-000000000000");
  EXPECT_EQ(anonymous("MIG-GPU-5fd4a1c2-3b7e-4c1d-9e8f-0123456789ab/7/0", names),
            "MIG-GPU-00000001-0000-0000-0000-000000000000/7/0");
  EXPECT_EQ(anonymous("MIG-11112222-3b7e-4c1d-9e8f-0123456789ab"), "MIG-00000001-0000-0000-0000-000000000000");
  EXPECT_EQ(anonymous("GPU-accelerated, GPU-0"), "GPU-accelerated, GPU-0");
}

TEST(Anonymize, SerialNumbersGoWhereverTheyWereSeenOnce) {
  EXPECT_EQ(anonymous("    Serial Number : 1652922011245\nboard 1652922011245 sent in"),
            "    Serial Number : serial-1\nboard serial-1 sent in");
  EXPECT_EQ(anonymous("<serial>1652922011245</serial>"), "<serial>serial-1</serial>");
  EXPECT_EQ(anonymous("<serial>N/A</serial> serial: 0"), "<serial>N/A</serial> serial: 0");
}

TEST(Anonymize, DocumentsKeepTheirKeysAndVersions) {
  const Identities names{.users = {"jane"}};
  Redactor redactor({}, &names);
  nlohmann::json document = nlohmann::json::parse(R"({"host": "vm", "user": "li", "jane": "jane", "version": "12.4.5.8",
    "serial": "0324", "variables": [{"name": "MASTER_ADDR", "value": "10.0.0.7"},
    {"name": "SLURMD_NODENAME", "value": "gpu-a-17"}], "path": "/home/jane/.venv"})");
  Removals removed;
  redactor.redact(document, removed);
  EXPECT_EQ(document["host"], "host-1");
  EXPECT_EQ(document["user"], "user-2");
  EXPECT_EQ(document["jane"], "user-1");
  EXPECT_EQ(document["version"], "12.4.5.8");
  EXPECT_EQ(document["serial"], "serial-1");
  EXPECT_EQ(document["variables"][0]["value"], "ip-1");
  EXPECT_EQ(document["variables"][1]["value"], "host-2");
  EXPECT_EQ(redactor.redact("gpu-a-17 is down", removed), "host-2 is down");
  EXPECT_EQ(document["path"], "/home/user-1/.venv");
}

}  // namespace
}  // namespace gpuwarden::redact
