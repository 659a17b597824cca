---@meta belvedere.xrpc

---@alias belvedere.XrpcParam string|number|boolean

---@class belvedere.XrpcAnswer
---@field status integer
---@field body string As it came: JSON text, as a rule.

---Methods of this server, run in process as the same caller, and of others, asked on nobody's behalf. Any status is an
---answer; without one an error is raised: `bad-input`, `forbidden`, `limit` or `unavailable`.
---@class belvedere.xrpc
xrpc = {}

---What `GET /xrpc/nsid` answers.
---@param nsid string
---@param params? table<string, belvedere.XrpcParam|belvedere.XrpcParam[]>
---@return belvedere.XrpcAnswer
function xrpc.query(nsid, params) end

---What `POST /xrpc/nsid` answers. Needs a caller; not in record and label events.
---@param nsid string
---@param input any The body, as JSON; nil sends none.
---@param params? table<string, belvedere.XrpcParam|belvedere.XrpcParam[]>
---@return belvedere.XrpcAnswer
function xrpc.procedure(nsid, input, params) end
