// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/redact/redact.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace gpuwarden::redact {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string cleaned(std::string_view text) { return redact_secrets(text).text; }

/// Letters and digits as a secret has them; never a real one.
std::string lot(std::size_t length) {
  static constexpr std::string_view kLetters = "a7Kq2ZpX9mB4tR6vW1yN8sD3fG5hJ0cL";
  std::string text;
  while (text.size() < length) text += kLetters[text.size() * 7 % kLetters.size()];
  return text;
}

struct Secret {
  const char* what;
  std::string value;
  Removed kind = Removed::token;
};

TEST(RedactSecrets, TokensGoByTheirShapeWhereverTheyStand) {
  const std::string hex40 = "0123456789abcdef0123456789abcdef01234567";
  const std::vector<Secret> secrets{{"Hugging Face", "hf_" + lot(34)},
                                    {"Hugging Face organisation", "api_org_" + lot(34)},
                                    {"GitHub", "ghp_" + lot(36)},
                                    {"GitHub action", "ghs_" + lot(36)},
                                    {"GitHub, fine-grained", "github_pat_" + lot(22) + "_" + lot(59)},
                                    {"GitLab", "glpat-" + lot(20)},
                                    {"OpenAI", "sk-" + lot(48)},
                                    {"OpenAI project", "sk-proj-" + lot(40) + "-" + lot(20)},
                                    {"Anthropic", "sk-ant-api03-" + lot(60)},
                                    {"Slack bot", "xoxb-" + std::string("123456789012-") + lot(24)},
                                    {"AWS key id", "AKIAQ2ZX9B4TR6VW1YN8"},
                                    {"AWS session", "ASIAQ2ZX9B4TR6VW1YN8"},
                                    {"Google", "AIza" + lot(35)},
                                    {"Stripe", "sk_live_" + lot(24)},
                                    {"npm", "npm_" + lot(36)},
                                    {"PyPI", "pypi-" + lot(60)},
                                    {"Docker", "dckr_pat_" + lot(27)},
                                    {"NVIDIA", "nvapi-" + lot(64)},
                                    {"Databricks", "dapi" + hex40.substr(0, 32)},
                                    {"JWT", "eyJ" + lot(20) + ".eyJ" + lot(30) + "." + lot(43)},
                                    {"Telegram", "123456789:AA" + lot(33)}};
  for (const Secret& secret : secrets) {
    for (const auto& [front, back] : {std::pair<std::string, std::string>{"login with ", " done"},
                                      {"(", ")"},
                                      {"'", "'"},
                                      {"x: \"", "\", y"},
                                      {"", ""}}) {
      const Redacted result = redact_secrets(front + secret.value + back);
      EXPECT_EQ(result.text, front + "[removed]" + back) << secret.what;
      EXPECT_EQ(result.removed, (Removals{{secret.kind, 1}})) << secret.what;
    }
  }
}

TEST(RedactSecrets, WhatOnlyLooksLikeASecretStays) {
  for (const char* text : {
           "commit 0123456789abcdef0123456789abcdef01234567",
           "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
           "GPU 0: NVIDIA H100 (UUID: GPU-5fd4a1c2-3b7e-4c1d-9e8f-0123456789ab)",
           "MIG-5fd4a1c2-3b7e-4c1d-9e8f-0123456789ab",
           "CUDA_VISIBLE_DEVICES=0,1,2,3",
           "TOKENIZERS_PARALLELISM=false",
           "max_tokens=4096 num_tokens: 128 max_new_tokens=256",
           "pad_token='<|endoftext|>' eos_token_id=50256 bos_token: 'begin0of1text'",
           "PAD_TOKEN=endoftext0123",
           "token: 42, tokens: 12345678",
           "PWD=/home/jane/work OLDPWD=/tmp",
           "scikit-learn sk-learn-contrib-and-other-long-names",
           "hf_transformers hf_hub_download_with_progress_bars",
           "wandb: Run data is saved locally in wandb/run-20240501_120000-abcd1234",
           "key=value primary_key=12 keyboard: us",
           "HF_TOKEN_PATH=/home/jane/.cache/huggingface/token",
           "GOOGLE_APPLICATION_CREDENTIALS=/etc/gcp/key.json",
           "password=$DB_PASSWORD HF_TOKEN=${HF_TOKEN} api_key=None secret: null",
           "https://github.com/org/repo/blob/main/a.py?raw=true&page=2#L10",
           "git clone ssh://git@github.com/org/repo git@github.com:org/repo.git",
           "http://localhost:8265/api?limit=100",
           "NVRM: Xid (PCI:0000:17:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
           "nvidia-cublas-cu12==12.4.5.8 torch==2.5.1+cu124",
           "std::token::x Token::kind",
           "Failed password for invalid user from port 22",
           "author: somebody else, authentication = off",
           "basic block layout of a kernel; Bearer of news",
           "if token == other_token: return",
           "eyJust a word",
           "pad token: abcdef0123, the key: left, Partition key: 12ab34cd56",
           "docker run -v /etc/passwd:/etc/passwd:ro -v /etc/group:/etc/group:ro",
           "JobCredentialPrivateKey = (null)",
           "api_key=\"EMPTY\"",
       }) {
    const Redacted result = redact_secrets(text);
    EXPECT_EQ(result.text, text);
    EXPECT_TRUE(result.removed.empty()) << text;
  }
}

TEST(RedactSecrets, ValuesGoBehindNamesThatSaySo) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"HF_TOKEN=abc", "HF_TOKEN=[removed]"},
      {"export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "export WANDB_API_KEY=[removed]"},
      {"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=[removed]"},
      {"aws_access_key_id = AKIA", "aws_access_key_id = [removed]"},
      {"docker run -e MY_SITE_TOKEN=s3 -e A=b image", "docker run -e MY_SITE_TOKEN=[removed] -e A=b image"},
      {R"({"api_key": "a b c", "n": 1})", R"({"api_key": "[removed]", "n": 1})"},
      {R"({"log": "{\"password\": \"hunter2\", \"n\": 1}"})", R"({"log": "{\"password\": \"[removed]\", \"n\": 1}"})"},
      {"'dbPassword': 'hunter2'}", "'dbPassword': '[removed]'}"},
      {"Namespace(lr=0.1, hf_token='q', n=2)", "Namespace(lr=0.1, hf_token='[removed]', n=2)"},
      {"login(token=b'abcdefgh1234')", "login(token=b'[removed]')"},
      {R"(os.environ["OPENAI_API_KEY"] = "abc")", R"(os.environ["OPENAI_API_KEY"] = "[removed]")"},
      {"password: hunter2, user: jane", "password: [removed], user: jane"},
      {"  secret: hunter2", "  secret: [removed]"},
      {"DB_PASSWORD=correct horse battery\nNEXT=1", "DB_PASSWORD=[removed]\nNEXT=1"},
      {"HF_TOKEN=abc python train.py", "HF_TOKEN=[removed] python train.py"},
      {"<password>hunter2</password>", "<password>[removed]</password>"},
      {"<arg value=&quot;x&quot; password=&quot;hunter2&quot;/>",
       "<arg value=&quot;x&quot; password=&quot;[removed]&quot;/>"},
      {"x-api-key: abc", "x-api-key: [removed]"},
      {"token: abcd1234efgh", "token: [removed]"},
      {"AccountName=a;AccountKey=Zm9vYmFy==", "AccountName=a;AccountKey=[removed]"},
      {R"("auths": {"nvcr.io": {"auth": "JG9hdXRodG9rZW46YWJj"}})", R"("auths": {"nvcr.io": {"auth": "[removed]"}})"},
      {"//registry.npmjs.org/:_authToken=abc", "//registry.npmjs.org/:_authToken=[removed]"},
      {"password: str = 'hunter2', n: int = 2", "password: str = '[removed]', n: int = 2"},
      {"api_key: Optional[str] = \"hunter2\"", "api_key: Optional[str] = \"[removed]\""},
      {"SECRET_KEY_BASE=abc KAGGLE_KEY=0123456789abcdef0123", "SECRET_KEY_BASE=[removed] KAGGLE_KEY=[removed]"},
      {"your API key: abc; access token = q", "your API key: [removed]; access token = [removed]"},
      {"client-key-data: LS0tLS1CRUdJTg==", "client-key-data: [removed]"}};
  for (const auto& [before, after] : cases) EXPECT_EQ(cleaned(before), after);
}

TEST(RedactSecrets, ValuesOfOptionsGoInEveryNotation) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"serve --password hunter2 --port 8000", "serve --password [removed] --port 8000"},
      {"serve --api-key=hunter2", "serve --api-key=[removed]"},
      {"vllm serve m --api-key token-abc", "vllm serve m --api-key [removed]"},
      {"huggingface-cli login --token hunter2", "huggingface-cli login --token [removed]"},
      {"['a', '--password', 'hunter2', 'b']", "['a', '--password', '[removed]', 'b']"},
      {R"(["--hf-token","hunter2"])", R"(["--hf-token","[removed]"])"},
      {R"({"command": "x --password \"two words\" --y"})", R"({"command": "x --password \"[removed]\" --y"})"},
      {"docker login -u jane -p hunter2 nvcr.io", "docker login -u jane -p [removed] nvcr.io"},
      {"sshpass -p hunter2 ssh node", "sshpass -p [removed] ssh node"},
      {"curl -u jane:hunter2 https://x.org", "curl -u [removed] https://x.org"},
      {"wandb login 0123456789abcdef0123456789abcdef01234567", "wandb login [removed]"},
      {"wandb: Paste an API key from your profile and hit enter, or press ctrl+c to quit: "
       "0123456789abcdef0123456789abcdef01234567",
       "wandb: Paste an API key from your profile and hit enter, or press ctrl+c to quit: [removed]"},
      {"wandb: Paste key: 0123456789abcdef0123456789abcdef01234567", "wandb: Paste key: [removed]"},
      {"ngc key: bXlrZXk5ODc2NTQzMjEwYWJjZGVmZ2hpamtsbW5vcA", "ngc key: [removed]"},
      {"machine api.wandb.ai login user password hunter2", "machine api.wandb.ai login user password [removed]"},
      {"--max-num-batched-tokens 8192 --max-tokens 5", "--max-num-batched-tokens 8192 --max-tokens 5"},
      {"--password-file /etc/x --token --verbose", "--password-file /etc/x --token --verbose"}};
  for (const auto& [before, after] : cases) EXPECT_EQ(cleaned(before), after);
}

TEST(RedactSecrets, CredentialsGoOutOfUrls) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"https://jane:hunter2@host/x", "https://[removed]@host/x"},
      {"git+https://abcdef@github.com/o/r.git", "git+https://[removed]@github.com/o/r.git"},
      {"postgres://u:p/w#1@db:5432/x", "postgres://[removed]@db:5432/x"},
      {"redis://:hunter2@cache:6379", "redis://[removed]@cache:6379"},
      {"HTTP_PROXY=http://u:p@proxy:3128 x", "HTTP_PROXY=http://[removed]@proxy:3128 x"},
      {"https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=abcdef0123",
       "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=[removed]"},
      {"\"https://a.blob.core.windows.net/c?sv=1&sig=Zm9v%3D&se=2\"",
       "\"https://a.blob.core.windows.net/c?sv=1&sig=[removed]&se=2\""},
      {"https://hooks.slack.com/services/T0/B0/abc posted", "https://hooks.slack.com/services/[removed] posted"}};
  for (const auto& [before, after] : cases) EXPECT_EQ(cleaned(before), after);
}

TEST(RedactSecrets, HeadersGoToTheirEnd) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"Authorization: Bearer abc def\nAccept: x", "Authorization: [removed]\nAccept: x"},
      {"curl -H 'Authorization: Basic dTpw' https://x", "curl -H 'Authorization: [removed]' https://x"},
      {R"({"Authorization": "Bearer abc"})", R"({"Authorization": "[removed]"})"},
      {"> cookie: session=abc; other=def\n<", "> cookie: [removed]\n<"},
      {"sent Bearer abcd1234efgh5678 to it", "sent Bearer [removed] to it"},
      {"authorization: enabled", "authorization: enabled"}};
  for (const auto& [before, after] : cases) EXPECT_EQ(cleaned(before), after);
}

TEST(RedactSecrets, PemBlocksGoWholeEvenIfOneEndWasCutOff) {
  const std::string body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKB\n";
  const std::string begin = "-----BEGIN PRIVATE KEY-----\n";
  const std::string end = "-----END PRIVATE KEY-----\n";
  EXPECT_EQ(cleaned("a\n" + begin + body + end + "b"), "a\n[removed]\nb");
  EXPECT_EQ(cleaned("\"k\": \"-----BEGIN RSA PRIVATE KEY-----\\nMIIE\\n-----END RSA PRIVATE KEY-----\\n\"}"),
            "\"k\": \"[removed]\\n\"}");
  EXPECT_THAT(cleaned("a\n" + begin + body), Not(HasSubstr("MIIE")));
  EXPECT_THAT(cleaned("a\n" + begin + body + "then a line of the log\n"), HasSubstr("then a line of the log"));
  EXPECT_THAT(cleaned("the tail:\n" + body + end + "b"), Not(HasSubstr("BKcw")));
  const Redacted two = redact_secrets(begin + body + end + "x\n" + begin + body + end);
  EXPECT_EQ(two.removed.at(Removed::private_key), 2U);
}

TEST(RedactSecrets, ValuesOfSecretVariablesGoWhereverTheyStand) {
  const Environment environment{{"WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567"},
                                {"HF_TOKEN", "tiny"},
                                {"CUDA_HOME", "/usr/local/cuda"},
                                {"SSL_CREDENTIALS", "/etc/ssl/x.pem"}};
  const auto known = secret_values(environment);
  EXPECT_EQ(known, (std::vector<std::string>{"tiny", "0123456789abcdef0123456789abcdef01234567"}));
  const Redacted result = redact_secrets("sending 0123456789abcdef0123456789abcdef01234567, in tiny", known);
  EXPECT_EQ(result.text, "sending [removed], in tiny");
  EXPECT_EQ(result.removed, (Removals{{Removed::known_value, 1}}));
}

TEST(RedactSecrets, WhatWasRedactedStaysAsItIs) {
  const std::string once =
      cleaned("HF_TOKEN=abc https://u:p@h Authorization: Bearer x\n--password y {\"secret\": \"z\"}");
  const Redacted twice = redact_secrets(once);
  EXPECT_EQ(twice.text, once);
  EXPECT_TRUE(twice.removed.empty());
}

TEST(RedactSecrets, ManyNamesOnOneLineTakeTimeInProportionToItsLength) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += "password=\"token='";
  EXPECT_GT(redact_secrets(text).removed[Removed::named_value], 0U);
  text.assign(600000, 'x');
  for (std::size_t i = 0; i + 3 < text.size(); i += 4) text.replace(i, 3, "://");
  EXPECT_EQ(redact_secrets(text).text, text);
}

TEST(SecretNames, AreToldFromNamesOfTextTokens) {
  for (const char* name : {"HF_TOKEN", "hf_token", "OPENAI_API_KEY", "openaiApiKey", "DB_PASS", "MYSQL_PWD",
                           "client-secret", "SLACK_BOT_TOKEN", "TOKEN_SECRET", "password_hash", "GH_TOKEN_2"})
    EXPECT_TRUE(is_secret_name(name)) << name;
  for (const char* name : {"PAD_TOKEN", "max_tokens", "TOKENIZERS_PARALLELISM", "PWD", "OLDPWD", "forward_pass", "PATH",
                           "key", "HF_TOKEN_PATH", "SECRET_NAME", "monkey", ""})
    EXPECT_FALSE(is_secret_name(name)) << name;
}

TEST(RedactDocument, KeysAndNumbersStayAndSecretsGoByTheirKey) {
  nlohmann::json document = nlohmann::json::parse(R"({"password": "x y", "pid": 12, "token": null,
    "variables": [{"name": "HF_TOKEN", "value": "q"}, {"name": "CUDA_HOME", "value": "/usr/local/cuda"}],
    "command": "serve --api-key abc", "version": "12.4.5.8"})");
  Redactor redactor;
  Removals removed;
  redactor.redact(document, removed);
  EXPECT_EQ(document["password"], "[removed]");
  EXPECT_EQ(document["pid"], 12);
  EXPECT_TRUE(document["token"].is_null());
  EXPECT_EQ(document["variables"][0]["value"], "[removed]");
  EXPECT_EQ(document["variables"][1]["value"], "/usr/local/cuda");
  EXPECT_EQ(document["command"], "serve --api-key [removed]");
  EXPECT_EQ(document["version"], "12.4.5.8");
  EXPECT_EQ(removed, (Removals{{Removed::named_value, 3}}));
}

}  // namespace
}  // namespace gpuwarden::redact
