---@meta belvedere.http

---@class belvedere.HttpOptions
---@field headers? table<string, string> Names in any case. Those about the message's form (Host, Content-Length, …) are the server's.
---@field body? string Text or bytes, at most 5 MiB; not for get and head.

---@class belvedere.HttpRequest: belvedere.HttpOptions
---@field url string
---@field method? "get"|"post"|"put"|"patch"|"delete"|"head" In any case; get when left out.

---@class belvedere.HttpAnswer
---@field status integer
---@field headers table<string, string> Names in lower case; of a header that came several times the values joined by ", ".
---@field body string As it came: text or bytes.

---@class belvedere.HttpFailure
---@field error {code: string, message: string} Why there is no answer.

---Requests to other servers. Any status is an answer; without one an error is raised: `bad-input`, `forbidden` (an
---internal address), `limit` or `unavailable`.
---@class belvedere.http
http = {}

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.get(url, options) end

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.post(url, options) end

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.put(url, options) end

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.patch(url, options) end

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.delete(url, options) end

---@param url string
---@param options? belvedere.HttpOptions
---@return belvedere.HttpAnswer
function http.head(url, options) end

---Up to 20 requests at once. The answers are in the order of the requests; one that failed has `error` and nothing else.
---@param requests belvedere.HttpRequest[]
---@return (belvedere.HttpAnswer|belvedere.HttpFailure)[]
function http.send_all(requests) end
