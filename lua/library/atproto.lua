---@meta belvedere.atproto

---@class belvedere.Label
---@field src string Who set it, a DID; the author for what a record says about itself.
---@field uri string
---@field val string
---@field cts string When, RFC 3339; empty for what a record says about itself.

---@class belvedere.Blob
---@field size fun(self: belvedere.Blob): integer In bytes.
---@field mime_type fun(self: belvedere.Blob): string

---@class belvedere.Download
---@field handle belvedere.Blob
---@field mimeType string
---@field size integer

---The network's accounts, labels, blobs, and signatures over records.
---@class belvedere.atproto
atproto = {}

---Origin of an account's PDS, nil when it has none. Raises `bad-input` for what is no DID, `unavailable` when nobody says.
---@param did string
---@return string?
function atproto.resolve_service_endpoint(did) end

---The labels on a record or an account that hold now, its author's own included.
---@param uri string An at-uri or a DID.
---@return belvedere.Label[]
function atproto.get_labels(uri) end

---The same for at most 100, in one query. Every URI has an entry.
---@param uris string[]
---@return table<string, belvedere.Label[]>
function atproto.get_labels_batch(uris) end

---A blob of an account, from its PDS, checked against its CID. The bytes stay on the server.
---@param did string
---@param cid string
---@return belvedere.Download
function atproto.blob_download(did, cid) end

---Puts a downloaded blob onto the caller's PDS. Only in runs with a PDS session, else nil.
---@param handle belvedere.Blob
---@param content_type? string The blob's own when left out.
---@return table answer What the PDS answered: `blob` is what goes into a record.
function atproto.blob_upload(handle, content_type) end

---This instance's signature over a record in the caller's repo. Raises `forbidden` without a caller.
---@param record table
---@return table signature `{$type, key, signature}`, to be put into the record's `signatures`.
function atproto.sign(record) end

---Whether a signature is this instance's, for this record in this repo.
---@param record table
---@param signature table
---@param repo_did string
---@return boolean
function atproto.verify_signature(record, signature, repo_did) end
