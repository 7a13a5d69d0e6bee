// SPDX-License-Identifier: Apache-2.0
// How rarely bytes follow each other in logs: what is rare tells most where many literals are looked for at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpuwarden::diagnosis {

/// Letters without case, digits alike, white space alike, the marks of kMarks each, and all others.
inline constexpr std::string_view kMarks = "_.,:;-/'\"()[]=<>";
inline constexpr std::size_t kDigitClass = 26;
inline constexpr std::size_t kBlankClass = 27;
inline constexpr std::size_t kByteClasses = 29 + kMarks.size();

/// -log2 of how often a byte stands in a text, by its class, as a hexadecimal digit.
inline constexpr std::string_view kRarities = "465546664a755445a444577779837677b7899889a8bac";
/// -log2 of how often a byte of the second class follows one of the first. Counted in 1.3 MB of public bug reports,
/// 2.5 MB of Debian 12's documents and 3 MB of the messages in its libraries; no text of bench_diagnose is among them.
inline constexpr std::string_view kPairRarities =
    "944487595a7343b6c34366976aa479aaf89cdccdacfcf"   // after a
    "4778386a47928958c5683acb4b95869ae869ccadcbcef"   // after b
    "3a6938a35e457937b57356bb7ba56899e98acaafdbbdf"   // after c
    "459529893bb79858b656598a8eb26477b789b99fb7cdf"   // after d
    "574366698cb55396734597758cb26778c789a88eb9ebf"   // after e
    "4b85548c2fd58937f4554db96f938799d8a9bbbfcbecf"   // after f
    "687a27654bb56465c4575a8d89c26677b76aaa8fc8d9f"   // after g
    "2aa929aa3eb97949f6756aaf8ab37788c88aba9ec9ebf"   // after h
    "5545555cbd945236b543a6d6c6c69abbfaacfdbfbffef"   // after i
    "496929a9587567367a473badbdd5677baddaba9d8dade"   // after j
    "497829684d978577a847776a9c826577b798899db7dae"   // after k
    "4985278c3c936938c94655984bc46798d88aa99dcaecf"   // after l
    "35662bbb4e875834bb69498aaba46694d879baaddadaf"   // after m
    "4b4446395b768648d94355ac8ca27788b787ba9ec9caf"   // after n
    "6655746b6a754264e364465abce499aaf9baccaeddeff"   // after o
    "3a6728864f748934d3545aa84da47798b89abbacd9fbf"   // after p
    "7c8789b89e8767969666165acb845686e8878aa9c8ace"   // after q
    "3966276b4c676647b554578c5dc36787d879b98dc9aaf"   // after r
    "5a6939753c877855a7435a8a5db26666b769aa7c889ad"   // after s
    "4a6939b33dc69947c4556a8a5bb36788c789a99dbacbf"   // after t
    "6646575c5da44394c4339ad7aba69aaafbabdbacbcfef"   // after u
    "298a298b3c853957f8687a989c8669a9f98bbaacbbdcf"   // after v
    "39893bb32eb8b539a559bb7bcec37699e88aab8bbbdbf"   // after w
    "585949894dc97882a6737bc78a725667a688a98b79cdb"   // after x
    "69796a9a7fc75663b834aa7ca9e166659798598cb8a8f"   // after y
    "368918a74c77796bc87b779967b57788cb999f878bbde"   // after z
    "888696abad89a8b9daa9bbc7da436345856a8b6b6aa9d"   // digit
    "4555556649955555a54466599a92a9cad79786c7b79bb"   // blank
    "453455564a64455494345666b99759bdfdbce9bdfdcff"   // after _
    "555676677ab76844b6567688c762668dfe8bae8eafcdf"   // after .
    "dcb8ccbfdffcbbdeccbbbfedcf80bdaffaf8affcfdcdf"   // after ,
    "7977875b78f788979747b997fd61bfe2bc6ab9e8bdcfe"   // after :
    "c78bccccccc96bbccc68cccccca0cccc7bbc9cccc88cb"   // after ;
    "544556676985566495457768a864fcdbf2dcbcdcffe6e"   // after -
    "565456566893466486354467aa9677bbe859ac9dddb8d"   // after /
    "676677797ba67777a633888895b2a547b88697697989a"   // after '
    "6756777769b666769665788aa99285269639786a8c77b"   // after "
    "5654637659a65666955665689a758aeff7b6752affbba"   // after (
    "ecddbfeffffdfeeffaccfffffff0f4557997796b9baad"   // after )
    "7552666779a6788494667966ba6389dab6b67be97abec"   // after [
    "bdbdaee9deeeaddeebdee9ebdaf0855479d895778e8cd"   // after ]
    "8a9895a99de88599aa97aaaaaf72c9bdda966bd8e1aad"   // after =
    "4555768567935675774448898974aa9aa959a7aaa559b"   // after <
    "9875799a8dc874b8d66788dbada2b4556886688c3466b"   // after >
    "7976888a8b8687a8b867899999729878b8878989a9987";  // other
static_assert(kRarities.size() == kByteClasses && kPairRarities.size() == kByteClasses * kByteClasses);

constexpr std::size_t byte_class(unsigned char c) {
  if (c >= 'a' && c <= 'z') return static_cast<std::size_t>(c - 'a');
  if (c >= 'A' && c <= 'Z') return static_cast<std::size_t>(c - 'A');
  if (c >= '0' && c <= '9') return kDigitClass;
  if (c == ' ' || c == '\t' || c == '\n') return kBlankClass;
  const std::size_t mark = kMarks.find(static_cast<char>(c));
  return mark == std::string_view::npos ? kByteClasses - 1 : kBlankClass + 1 + mark;
}

inline constexpr auto kClassOfByte = [] {
  std::array<std::uint8_t, 256> classes{};
  for (std::size_t c = 0; c < classes.size(); ++c)
    classes[c] = static_cast<std::uint8_t>(byte_class(static_cast<unsigned char>(c)));
  return classes;
}();

constexpr int digit_value(char hexadecimal) { return hexadecimal <= '9' ? hexadecimal - '0' : hexadecimal - 'a' + 10; }

/// -log2 of how often `next` follows `before`.
constexpr int rarity_of_next(char before, char next) {
  const std::size_t row = kClassOfByte[static_cast<unsigned char>(before)];
  return digit_value(kPairRarities[row * kByteClasses + kClassOfByte[static_cast<unsigned char>(next)]]);
}

/// -log2 of how often a byte stands in a text.
constexpr int rarity_of(char c) { return digit_value(kRarities[kClassOfByte[static_cast<unsigned char>(c)]]); }

}  // namespace gpuwarden::diagnosis
