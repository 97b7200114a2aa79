// Creating a libcurl handle and starting a request on it, for the two files that speak HTTP.
#pragma once

#include <curl/curl.h>
#include <array>
#include <memory>
#include <new>
#include <string>

namespace kiln {

struct FreeCurlList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlHeaders = std::unique_ptr<curl_slist, FreeCurlList>;

// Curl's error message. Must outlive the request.
using CurlReason = std::array<char, CURL_ERROR_SIZE>;

// Close the handle with close_curl(). Throws std::bad_alloc.
inline CURL* open_curl() {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  CURL* handle = curl_easy_init();
  if (handle == nullptr) throw std::bad_alloc();
  return handle;
}

inline void close_curl(CURL* handle) {
  curl_easy_cleanup(handle);
  curl_global_cleanup();
}

// Resets all options of the previous request; its connection stays open.
inline void begin_request(CURL* handle, const std::string& url, CurlReason& reason) {
  curl_easy_reset(handle);
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "kiln");
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, reason.data());
}

}  // namespace kiln
