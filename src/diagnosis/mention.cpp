// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/mention.hpp"

#include <re2/re2.h>

#include <array>

namespace gpuwarden::diagnosis {
namespace {

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

/// Python, C++, Go, shell and tests in them. Not "RuntimeError('...')": so an exception prints itself.
bool is_code(std::string_view text) {
  static const RE2 statement(
      R"re(^(?://|/\*|""".*"""$|:raises \w|raise [\w.]+\(|throw (?:new )?[\w:.]+[({]|(?:\} )?(?:catch|else if) ?\(|(?:el)?if .{0,80}["'].{0,80}:$|if \(.*["'].*[){]$)re"
      R"re(|except (?:\(|[\w.]+)[^:]{0,80}:(?: ?#.*)?$|assert .*, ?f?["'].*["']\)?$|return (?:[\w:.]+\()?f?["'].*["'][);]*$)re"
      R"re(|case [\w:]+: ?return\b|with [\w.]+\(.*\):$|# ?define |echo ["']|grep (?:-\w+ )*["']))re");
  static const RE2 call(
      R"re(^(?:(?:f?printf?|s?n?printf|f?puts|panic|die|abort|fail|exit|sys\.exit|warnings\.warn|log(?:ger|ging)?\.\w+|LOG\.\w+|\w*_?CHECK\w*|assert\w*|self\.assert\w+|expect|re\.\w+|fmt\.\w+|errors\.New|console\.\w+)\(|(?:std::)?c(?:err|out) <<|LOG\(\w+\) <<).*["'].*["'].*[);,:]$)re");
  static const RE2 assignment(R"re(^[\w.*&:<>\[\] ]{1,60} = (?:[\w.]+\()?[rfbu]?["'].*["']\)?[;,]?$)re");
  static const RE2 entry(R"re(^["'][^"':]+ [^"':]+ [^"':]+["']: ?["'])re");
  for (const RE2* form : {&statement, &call, &assignment, &entry}) {
    if (RE2::PartialMatch(piece(text), *form)) return true;
  }
  return false;
}

bool is_help(std::string_view raw) {
  static const RE2 option(R"(^\s*-{1,2}\w[\w-]*(?:, --?[\w-]+)?(?:[ =][A-Z_<\[{][\w.,|\]>}-]*)?\s{2,}[a-zA-Z])");
  return RE2::PartialMatch(piece(raw), option);
}

/// "If you get X, do Y": without the Y it is somebody's question.
bool says_what_to_do(std::string_view sentence) {
  static const RE2 condition(
      R"((?i)^\W*(?:if|when(?:ever)?|in case(?: of)?)\b.*["'`\w](?:, | then |,$)(?:then |please |you |first )?(?:run|re\w+|try|set|check|use|lower|update|upgrade|install|enable|disable|add|increase|make|see|look|pass|switch|free|kill|call|do|should|can|must|need)\b|^\W*(?:\d+\. )?(?:if|when(?:ever)?) (?:the )?[\w-]+ (?:gets?|sees?|says?|reports?|hits?|prints?|shows?)\b.*(?:,| then ))");
  return !sentence.ends_with('?') && RE2::PartialMatch(piece(sentence), condition);
}

/// Whether it opens as advice, a remark on a version or a question about others does.
bool opens_without_event(std::string_view sentence) {
  static const RE2 words(
      R"((?i)^\W*(?:should (?:you|the|it|this|a)|to (?:avoid|fix|prevent|solve|resolve|debug|handle|work around)|what (?:does|do)\b.* mean|refer to|for (?:details|more|example)|common (?:errors|problems|issues)|known issues?|symptoms include|troubleshooting|fixe[sd] an? (?:\w+ ){0,6}(?:issue|bug|error|problem|crash|case)|todo|fixme|don.t (?:confuse|mistake)|(?:has|have|had) (?:anyone|anybody|someone|you)|anyone|before you|make sure (?:that )?no|answers?:|a:|(?:does|do|did) (?:anyone|you|this|that|it)|(?:can|could|would|should|will|wouldn.t|couldn.t) (?:you|we|it|this|that|someone|one)|is (?:it|this|that|there)|(?:please |maybe |perhaps |just )?(?:grep|look for|search for|check (?:for|if|whether))|people|users (?:may|might|often))(?:\W|$))");
  return RE2::PartialMatch(piece(sentence), words);
}

/// Where a sentence begins to say what may be; npos where it does not. "Could not get" tells what was.
std::size_t what_may_be(std::string_view sentence) {
  static const RE2 words(
      R"((?i)\b(?:may|might|can|could|you would)\b ((?:\w+ ){0,2}?)(?:cause|lead|result|fail with|raise|throw|give|get|end|hit|trigger|produce|return|be (?:raised|returned|thrown|seen))\b|\bwould be an?\b|\byou will (?:see|get)\b|\b(?:if|unless|in case)\b [^.]{0,60}\b(?:occurs|happens|appears|is (?:raised|hit|seen))\b)");
  static const RE2 denied(R"((?i)\b(?:not|never|no)\b)");
  const re2::StringPiece whole = piece(sentence);
  std::array<re2::StringPiece, 2> found;
  std::size_t from = 0;
  while (words.Match(whole, from, whole.size(), RE2::UNANCHORED, found.data(), 2)) {
    const auto at = static_cast<std::size_t>(found[0].data() - whole.data());
    if (!RE2::PartialMatch(found[1], denied)) return at;
    from = at + found[0].size();
  }
  return std::string_view::npos;
}

/// Whether it opens with an error's name, as a program prints one: whatever follows, the error is there.
bool opens_with_error(std::string_view sentence) {
  static const RE2 words(
      R"(^["'(]*(?:[\w.:]*\w(?:Error|Exception)\w*|\w+_ERROR_\w+|(?i:(?:fatal )?error|fatal|panic|exception))(?: ?[(\[]\w+[)\]])?: )");
  return RE2::PartialMatch(piece(sentence), words);
}

/// Whether it tells what an error is, or what a function does with one. What a later clause tells of is not the error:
/// "cannot open shared object file, as is described in the manual".
bool describes(std::string_view sentence) {
  static const RE2 words(
      R"((?i)\b(?:is|are) (?:returned|described|documented|explained|listed|caught) (?:when|if|by|in|for|here)\b|^(?:\W|the (?:function|call|method) )*(?:returns?|raises?|throws?) [\w.]+ (?:if|when|on)\b|(?:^|= ?\d+)\W*this indicates that\b|\w["`] (?:means|stands for)\b|\bXid \d+ (?:means|stands for)\b|\b(?:such as|stands for) ["']|\b(?:is|are) logged for\b|["'`] goes away\b|^\W*(?:please |also )?(?:see|read|consult|find|look up)\b.*\bin the (?:manual|guide|docs?|documentation|catalog)\b|\*\* (?:means|is|occurs)\b|^[-*] [^:]{6,}: (?:lower|reduce|check|use|try|set|increase|update|install|reboot|rebuild|make sure)\b|^\W*(?:[\w. -]{1,40}: )?no more ["']|\bI (?:think|guess|suppose|believe)\b.*\bwould\b)");
  if (opens_with_error(sentence)) return false;
  return RE2::PartialMatch(piece(sentence.substr(0, sentence.find_first_of(",;"))), words);
}

/// What somebody tells of themselves happened.
bool tells_of_oneself(std::string_view sentence) {
  static const RE2 words(R"(\b(?:I|[Mm]y|we|We|our|me|us|encountering|got|getting)\b|^[Ww]hen(?:ever)? \w+ing\b)");
  return RE2::PartialMatch(piece(sentence), words);
}

}  // namespace

bool is_code_or_help(std::string_view raw, std::string_view text) { return is_code(text) || is_help(raw); }

std::string_view what_happened(std::string_view text) {
  static const RE2 sentence_end(R"([a-z)\]'"`][.?!] )");

  re2::StringPiece found;
  const re2::StringPiece whole = piece(text);
  std::size_t end = text.size();
  if (sentence_end.Match(whole, 0, whole.size(), RE2::UNANCHORED, &found, 1))
    end = static_cast<std::size_t>(found.data() - whole.data()) + found.size();
  const std::string_view first = text.substr(0, end);
  if (describes(first)) return text.substr(end);
  if (tells_of_oneself(first)) return text;
  if (says_what_to_do(first) || opens_without_event(first)) return text.substr(end);
  return text.substr(0, what_may_be(first));
}

}  // namespace gpuwarden::diagnosis
