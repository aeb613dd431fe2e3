// NVRTC: compiles a kernel file as C++ into a shared object and calls that a cubin.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

asm(R"(
.section .rodata
shim_runtime_text:
.incbin "shim_runtime.h"
.byte 0
.previous
)");
extern "C" __attribute__((visibility("hidden"))) const char shim_runtime_text[];

extern char** environ;

namespace {

enum Result : int {
  SUCCESS = 0,
  INVALID_INPUT = 3,
  INVALID_PROGRAM = 4,
  COMPILATION = 6,
  NAME_EXPRESSION_NOT_VALID = 10,
  INTERNAL_ERROR = 11
};

namespace fs = std::filesystem;

struct Header {
  std::string name, text;
};

struct Program {
  std::string source, name, log, image;
  std::vector<Header> headers;
};

struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "melisma-shim-XXXXXX").string();
    if (const char* made = mkdtemp(pattern.data())) path = made;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::vector<std::string> words(const char* text) {
  std::vector<std::string> list;
  std::string word;
  for (; text && *text; text++) {
    if (*text != ' ')
      word += *text;
    else if (!word.empty())
      list.push_back(std::move(word)), word.clear();
  }
  if (!word.empty()) list.push_back(word);
  return list;
}

// Runs the compiler with both of its outputs in `log`; true where it succeeded.
bool run(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), 0x241 /* write, create, truncate */, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child;
  int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) {
    write(log, "cannot start " + command[0] + ": " + strerror(failed) + "\n");
    return false;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::vector<std::string> compiler() {
  std::vector<std::string> command = words(getenv("MELISMA_SHIM_CXX"));
  if (command.empty()) command = {"g++"};
  return command;
}

// Of the options for a GPU compiler only definitions mean something here.
std::vector<std::string> definitions(int count, const char* const* options) {
  std::vector<std::string> list;
  for (int i = 0; i < count; i++) {
    std::string option = options[i];
    if (option == "-D" || option == "--define-macro")
      if (++i < count) list.push_back(std::string("-D") + options[i]);
    if (option.rfind("-D", 0) == 0 && option.size() > 2) list.push_back(option);
    if (option.rfind("--define-macro=", 0) == 0) list.push_back("-D" + option.substr(15));
  }
  return list;
}

std::vector<std::string> flags() {
  std::vector<std::string> list = {"-std=c++17", "-O1", "-DMELISMA_SHIM", "-I.", "-include", "shim_runtime.h", "-x",
                                   "c++",        "-w"};
  for (const char* flag :
       {"-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-ipa-reference",
        "-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables", "-fvisibility=hidden", "-fPIC"})
    list.push_back(flag);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma")) list.push_back("-mfma");
#endif
  for (std::string& word : words(getenv("MELISMA_SHIM_CXXFLAGS"))) list.push_back(word);
  return list;
}

// One SHIM_KERNEL line per kernel found in the preprocessed text.
std::string registrations(const std::string& text) {
  static const std::regex kernel(R"re(extern\s+"C"\s+__global__\s+(?:void\s+)?(?:__launch_bounds__\s*\()?)re");
  std::string lines;
  for (std::sregex_iterator match(text.begin(), text.end(), kernel), end; match != end; ++match) {
    size_t at = size_t(match->position() + match->length());
    std::string bounds = "1024";
    if (text[at - 1] == '(') {
      size_t start = at;
      for (int depth = 1; at < text.size() && depth > 0; at++) depth += (text[at] == '(') - (text[at] == ')');
      bounds = text.substr(start, at - 1 - start);
    }
    static const std::regex name(R"re(\s*(?:void\s+)?([A-Za-z_]\w*)\s*\()re");
    std::smatch found;
    if (std::regex_search(text.cbegin() + long(at), text.cend(), found, name, std::regex_constants::match_continuous))
      lines += "SHIM_KERNEL(" + found[1].str() + ", " + bounds + ")\n";
  }
  return lines;
}

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Result compile(Program& program, int count, const char* const* options) {
  TemporaryFolder folder;
  if (folder.path.empty()) return INTERNAL_ERROR;
  const fs::path source = folder.path / "kernel.cu", scan = folder.path / "scan.ii", image = folder.path / "kernel.so",
                 log = folder.path / "log";
  write(folder.path / "shim_runtime.h", shim_runtime_text);
  for (const Header& header : program.headers) {
    fs::path path = (folder.path / header.name).lexically_normal();
    if (path.string().rfind(folder.path.string() + "/", 0) != 0) return INVALID_INPUT;
    fs::create_directories(path.parent_path());
    write(path, header.text);
  }
  const std::string first_line = "#line 1 \"" + program.name + "\"\n";
  write(source, first_line + program.source);

  std::vector<std::string> base = joined(joined(compiler(), flags()), definitions(count, options));
  for (std::string& word : base)
    if (word == "-I.")
      word = "-I" + folder.path.string();
    else if (word == "shim_runtime.h")
      word = (folder.path / word).string();
  bool ok = run(joined(base, {"-DMELISMA_SHIM_SCAN", "-E", "-P", "-o", scan.string(), source.string()}), log);
  if (ok) {
    write(source, first_line + program.source + "\n#line 1 \"shim registrations\"\n" + registrations(read(scan)));
    ok = run(joined(base, {"-shared", "-Wl,-Bsymbolic", "-o", image.string(), source.string(), "-lm"}), log);
  }
  program.log = read(log);
  program.image = ok ? read(image) : "";
  return ok ? SUCCESS : COMPILATION;
}

Result give(const std::string& bytes, char* to) {
  memcpy(to, bytes.data(), bytes.size());
  return SUCCESS;
}

constexpr char PTX[] = "// Melisma host shim: there is no PTX, use the cubin.\n";

}  // namespace

API Result nvrtcVersion(int* major, int* minor) {
  *major = 13, *minor = 0;
  return SUCCESS;
}

API Result nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return SUCCESS;
}
API Result nvrtcGetSupportedArchs(int* archs) {
  *archs = 90;
  return SUCCESS;
}

API Result nvrtcCreateProgram(Program** program, const char* source, const char* name, int n_headers,
                              const char* const* headers, const char* const* names) {
  if (!program || !source || n_headers < 0) return INVALID_INPUT;
  *program = new Program;
  (*program)->source = source;
  (*program)->name = name ? name : "default_program";
  for (int i = 0; i < n_headers; i++) (*program)->headers.push_back({names[i], headers[i]});
  return SUCCESS;
}

API Result nvrtcDestroyProgram(Program** program) {
  if (!program || !*program) return INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  return SUCCESS;
}

API Result nvrtcCompileProgram(Program* program, int n_options, const char* const* options) {
  return program ? compile(*program, n_options, options) : INVALID_PROGRAM;
}

API Result nvrtcGetCUBINSize(Program* program, size_t* bytes) {
  *bytes = program->image.size();
  return SUCCESS;
}
API Result nvrtcGetCUBIN(Program* program, char* image) { return give(program->image, image); }

API Result nvrtcGetPTXSize(Program*, size_t* bytes) {
  *bytes = sizeof PTX;
  return SUCCESS;
}
API Result nvrtcGetPTX(Program*, char* text) { return give(std::string(PTX, sizeof PTX), text); }

API Result nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
  *bytes = program->log.size() + 1;
  return SUCCESS;
}
API Result nvrtcGetProgramLog(Program* program, char* text) { return give(program->log + '\0', text); }

API Result nvrtcAddNameExpression(Program*, const char*) { return NAME_EXPRESSION_NOT_VALID; }

API const char* nvrtcGetErrorString(Result result) {
  switch (result) {
    case SUCCESS: return "NVRTC_SUCCESS";
    case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case COMPILATION: return "NVRTC_ERROR_COMPILATION";
    case NAME_EXPRESSION_NOT_VALID: return "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    default: return "NVRTC_ERROR_INTERNAL_ERROR";
  }
}
