// SPDX-License-Identifier: Apache-2.0
// Secrets in coloured logs, and those that no '=' or ':' joins to their names.
#include <gmock/gmock.h>

#include "gpuwarden/redact/redact.hpp"

namespace gpuwarden::redact {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Cases = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kToken = "hf_a7Kq2ZpX9mB4tR6vW1yN8sD3fG5hJ0cLaa";
constexpr const char* kHex = "0123456789abcdef0123456789abcdef01234567";

std::string clean(std::string_view text) { return redact_secrets(text).text; }

TEST(RedactColours, HideNoTokenHoweverTheEscapeIsWritten) {
  for (const std::string escape : {"\x1b", "\\x1b", "\\u001b", "\\u001B", "\\\\u001b", "\\033", "\\e", "^[", "#033"}) {
    const std::string front = "login " + escape + "[1;33m";
    const std::string back = escape + "[0m done";
    const Redacted result = redact_secrets(front + kToken + back);
    EXPECT_EQ(result.text, front + "[removed]" + back);
    EXPECT_EQ(result.removed, (Removals{{Removed::token, 1}}));
  }
  EXPECT_EQ(clean(std::string("\x1b(B\x1b[m") + kToken), "\x1b(B\x1b[m[removed]");
  EXPECT_EQ(clean(std::string("{\"log\": \"a\\n") + kToken + "\\n\"}"), "{\"log\": \"a\\n[removed]\\n\"}");
}

TEST(RedactColours, MayStandBetweenANameAndItsValue) {
  EXPECT_EQ(clean("HF_TOKEN\x1b[0m=\x1b[33mvalue\x1b[0m x"), "HF_TOKEN\x1b[0m=\x1b[33m[removed]\x1b[0m x");
  EXPECT_EQ(clean("\\u001b[33mpassword\\u001b[0m: \\u001b[1mhunter2\\u001b[0m"),
            "\\u001b[33mpassword\\u001b[0m: \\u001b[1m[removed]\\u001b[0m");
  EXPECT_EQ(clean("serve \x1b[36m--api-key\x1b[0m hunter2"), "serve \x1b[36m--api-key\x1b[0m [removed]");
  EXPECT_EQ(clean("\x1b[1mAuthorization\x1b[0m: Bearer abc"), "\x1b[1mAuthorization\x1b[0m: [removed]");
}

TEST(RedactColours, InsideATokenAreNoWayRoundIt) {
  const std::string token = kToken;
  EXPECT_THAT(clean("\x1b[01;31m\x1b[Khf_\x1b[m\x1b[K" + token.substr(3)), Not(HasSubstr(token.substr(3))));
}

TEST(RedactColours, StayWhereNothingIsSecret) {
  for (const char* text : {"\x1b[32mINFO\x1b[0m step 12 of 40", "array[1m] \\e[ x(", "\x1b[", "^[[:alpha:]]+$",
                           "\x1b[33mmax_tokens\x1b[0m: 4096"})
    EXPECT_EQ(clean(text), text);
}

TEST(RedactSettings, NamesWrittenTogetherAndShortOnesCount) {
  const Cases cases{{"PGPASSWORD=hunter2", "PGPASSWORD=[removed]"},
                    {"dbpassword=hunter2", "dbpassword=[removed]"},
                    {"db_pass=hunter2", "db_pass=[removed]"},
                    {"ansible_become_pass: hunter2", "ansible_become_pass: [removed]"},
                    {"dbPass: hunter2", "dbPass: [removed]"},
                    {R"({"auth": "eDp5"})", R"({"auth": "[removed]"})"},
                    {R"("auth": "amFuZTpodW50ZXI=")", R"("auth": "[removed]")"}};
  for (const auto& [before, after] : cases) EXPECT_EQ(clean(before), after);
}

TEST(RedactSettings, CommandsThatSetVariablesLoseTheValues) {
  const Cases cases{
      {"setenv WANDB_API_KEY q", "setenv WANDB_API_KEY [removed]"},
      {"set -gx HF_TOKEN q", "set -gx HF_TOKEN [removed]"},
      {"set -g -x HF_TOKEN 'x y'", "set -g -x HF_TOKEN '[removed]'"},
      {"ENV HF_TOKEN q", "ENV HF_TOKEN [removed]"},
      {"AWS_SECRET_ACCESS_KEY wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY [removed]"},
      {"| HF_TOKEN | ab12cd34ef |", "| HF_TOKEN | [removed] |"},
      {R"x(os.environ.setdefault("HF_TOKEN","q"))x", R"x(os.environ.setdefault("HF_TOKEN","[removed]"))x"},
      {R"x(("HF_TOKEN", "q"))x", R"x(("HF_TOKEN", "[removed]"))x"},
      {R"x({"code": "put(\"HF_TOKEN\", \"q\")"})x", R"x({"code": "put(\"HF_TOKEN\", \"[removed]\")"})x"},
      {std::string("wandb.login(key=\"") + kHex + "\")", "wandb.login(key=\"[removed]\")"},
      {"sshpass -phunter2 ssh node", "sshpass -p[removed] ssh node"},
      {"openssl rsa -passin=pass:hunter2", "openssl rsa -passin=pass:[removed]"},
      {"mysql -uroot -phunter2 db", "mysql -uroot -p[removed] db"},
      {"curl -ujane:hunter2 https://x.org", "curl -u[removed] https://x.org"},
      {"openssl rsa -passin pass:hunter2 -in k", "openssl rsa -passin pass:[removed] -in k"}};
  for (const auto& [before, after] : cases) EXPECT_EQ(clean(before), after);
}

TEST(RedactSettings, FilesOfNetrcAndYamlLoseTheirValues) {
  const Cases cases{
      {"machine api.wandb.ai\n  login user\n  password hunter2\n",
       "machine api.wandb.ai\n  login user\n  password [removed]\n"},
      {"machine a\n  login jane password hunter2", "machine a\n  login jane password [removed]"},
      {"db:\n  password: |\n    hunter2\n    line two\n  port: 1\n", "db:\n  password: |\n    [removed]\n  port: 1\n"},
      {"password: >-\n  hunter2\nport: 1", "password: >-\n  [removed]\nport: 1"},
      {"- password: !vault |\n    $ANSIBLE\n    6162\n- x", "- password: !vault |\n    [removed]\n- x"},
      {"- password: !vault |\n    a1b2\n    6162\n- x", "- password: !vault |\n    [removed]\n- x"},
      {"password hunter2", "password [removed]"},
      {"- name: HF_TOKEN\n  value: hunter2\n- name: A\n  value: b",
       "- name: HF_TOKEN\n  value: [removed]\n- name: A\n  value: b"},
      {R"({"name":"HF_TOKEN","value":"hunter2"})", R"({"name":"HF_TOKEN","value":"[removed]"})"},
      {"hf_token: !secret hunter2", "hf_token: [removed]"},
      {"password: !hunter2, user: jane", "password: [removed] jane"}};
  for (const auto& [before, after] : cases) EXPECT_EQ(clean(before), after);
}

TEST(RedactSettings, WhatOnlyLooksLikeASettingStays) {
  for (const char* text : {"commit 0123456789abcdef0123456789abcdef01234567",
                           "GPU-5fd4a1c2-3b7e-4c1d-9e8f-0123456789ab",
                           "password: ",
                           "Password: \nLast login: today",
                           "max_tokens: 4096",
                           "HF_TOKEN is not set, HF_TOKEN environment variable",
                           "password incorrect\nnext",
                           "(\"HF_TOKEN\", \"OPENAI_API_KEY\")",
                           "('max_tokens', '12')",
                           "NOPASSWD: ALL",
                           "forward_pass: 12ms first_pass=ok",
                           "auth: none, \"auth\": \"basic\"",
                           "set -euo pipefail\nENV PATH /usr/bin",
                           "wandb.login(key=os.environ)",
                           "password: |\nport: 1",
                           "name: max_tokens\nvalue: 5",
                           "docker run mysql -p3306:3306",
                           "pass: 12, bypass: off",
                           "sshpass -e ssh -p22 node",
                           "description: |\n  what it does\n"})
    EXPECT_EQ(clean(text), text);
}

TEST(RedactSettings, ShortValuesOfSecretVariablesGoAsWordsOnly) {
  const std::vector<std::string> known{"abc12", "q1w2"};
  EXPECT_EQ(redact_secrets("with abc12, xabc12 abc123 q1w2 \x1b[1mabc12\x1b[0m", known).text,
            "with [removed], xabc12 abc123 q1w2 \x1b[1m[removed]\x1b[0m");
}

TEST(RedactSettings, ManyOfThemTakeTimeInProportion) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += "(\"a_token\", password: |\n HF_TOKEN x_x \x1b[33m";
  EXPECT_FALSE(redact_secrets(text).text.empty());
}

}  // namespace
}  // namespace gpuwarden::redact
