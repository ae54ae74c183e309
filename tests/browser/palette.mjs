// A PNG of a screen with a palette of 64 colours: a quarter of the bytes. PNG specification, third edition, sections 9 and 11.
// Only what Chromium writes is read: 8 bits a channel, RGB or RGBA, not interlaced.
import { crc32, deflateSync, inflateSync } from "node:zlib";

const COLOURS = 64;
const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** The picture's pixels, three bytes each. */
function pixels(png) {
  const parts = [];
  let head;
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    const [kind, data] = [png.toString("latin1", at + 4, at + 8), png.subarray(at + 8, at + 8 + length)];
    if (kind === "IHDR") head = { width: data.readUInt32BE(0), height: data.readUInt32BE(4), channels: data[9] === 6 ? 4 : 3 };
    if (kind === "IDAT") parts.push(data);
    at += length + 12;
  }
  const { width, height, channels } = head;
  const raw = inflateSync(Buffer.concat(parts));
  const line = width * channels;
  const out = Buffer.alloc(width * height * 3);
  let above = Buffer.alloc(line);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (line + 1)];
    const now = Buffer.from(raw.subarray(y * (line + 1) + 1, (y + 1) * (line + 1)));
    for (let x = 0; x < line; x++) {
      const [a, b, c] = [x >= channels ? now[x - channels] : 0, above[x], x >= channels ? above[x - channels] : 0];
      const paeth = () => {
        const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
        return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
      };
      now[x] += [0, a, b, (a + b) >> 1, filter === 4 ? paeth() : 0][filter];
    }
    for (let x = 0; x < width; x++) now.copy(out, (y * width + x) * 3, x * channels, x * channels + 3);
    above = now;
  }
  return { width, height, out };
}

function chunk(kind, data) {
  const body = Buffer.concat([Buffer.from(kind, "latin1"), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  body.copy(framed, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}

/** The picture with its most frequent colours; others become the nearest of these. */
export function reduced(png) {
  const { width, height, out } = pixels(png);
  const count = new Map();
  const colour = (at) => (out[at] << 16) | (out[at + 1] << 8) | out[at + 2];
  for (let at = 0; at < out.length; at += 3) count.set(colour(at), (count.get(colour(at)) ?? 0) + 1);
  const parts = (rgb) => [rgb >> 16, (rgb >> 8) & 255, rgb & 255];
  const far = (a, b) => parts(a).reduce((sum, part, at) => sum + (part - parts(b)[at]) ** 2, 0);
  // Frequent colours that are alike take one place: few of a chart shall not be lost to shades of text.
  const kept = [];
  for (const [rgb] of [...count].sort((a, b) => b[1] - a[1])) {
    if (kept.length < COLOURS && kept.every((other) => far(rgb, other) > 300)) kept.push(rgb);
  }
  const nearest = new Map([...count.keys()].map((rgb) => [rgb, kept.reduce((best, _, at) => (far(rgb, kept[at]) < far(rgb, kept[best]) ? at : best), 0)]));
  const lines = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) lines[y * (width + 1) + 1 + x] = nearest.get(colour((y * width + x) * 3));
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  // Eight bits a pixel, of a palette.
  head.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([SIGNATURE, chunk("IHDR", head), chunk("PLTE", Buffer.from(kept.flatMap(parts))), chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
