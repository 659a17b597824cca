// SHA-256 (FIPS 180-4) and base64url (RFC 4648 §5), for PKCE: the engine's own cryptography needs more of the host than
// plugins get.

/// The first 32 bits of the fractional parts of a root of the first primes.
function fractions(count, root) {
  const found = [];
  for (let n = 2; found.length < count; n++) {
    let prime = true;
    for (let divisor = 2; divisor * divisor <= n; divisor++) prime &&= n % divisor !== 0;
    if (prime) found.push(((root(n) % 1) * 2 ** 32) >>> 0);
  }
  return found;
}

const INITIAL = fractions(8, Math.sqrt);
const ROUND = fractions(64, Math.cbrt);

const rotate = (word, bits) => (word >>> bits) | (word << (32 - bits));

function padded(bytes) {
  const out = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  out.set(bytes);
  out[bytes.length] = 0x80;
  new DataView(out.buffer).setBigUint64(out.length - 8, BigInt(bytes.length) * 8n);
  return new DataView(out.buffer);
}

export function sha256(bytes) {
  const view = padded(bytes);
  const hash = [...INITIAL];
  const words = new Array(64);
  for (let block = 0; block < view.byteLength; block += 64) {
    for (let i = 0; i < 16; i++) words[i] = view.getUint32(block + i * 4);
    for (let i = 16; i < 64; i++) {
      const [a, b] = [words[i - 15], words[i - 2]];
      const s0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3);
      const s1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10);
      words[i] = (words[i - 16] + s0 + words[i - 7] + s1) >>> 0;
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i++) {
      const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[i] + words[i]) >>> 0;
      const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) >>> 0;
      [a, b, c, d, e, f, g, h] = [(t1 + t2) >>> 0, a, b, c, (d + t1) >>> 0, e, f, g];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (hash[i] = (hash[i] + word) >>> 0));
  }
  const out = new DataView(new ArrayBuffer(32));
  hash.forEach((word, i) => out.setUint32(i * 4, word));
  return new Uint8Array(out.buffer);
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/// Without padding.
export function base64url(bytes) {
  let out = '';
  for (let i = 0; i < bytes.length; i += 3) {
    const bits = (bytes[i] << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    const letters = Math.min(bytes.length - i, 3) + 1;
    for (let n = 0; n < letters; n++) out += ALPHABET[(bits >> (18 - 6 * n)) & 0x3f];
  }
  return out;
}
