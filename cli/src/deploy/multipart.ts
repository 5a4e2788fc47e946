import { createReadStream } from "node:fs";
import type { StreamBody } from "../http.ts";

/** The archive on disk, as a part of the body. */
export interface ArchivePart {
  name: string;
  file: string;
  sizeBytes: number;
  type: string;
}

/**
 * A `multipart/form-data` body of text fields and then one file, which is read while it is sent.
 * `boundary` is random and the caller's; `sent` is told how many bytes of the file are on their way.
 */
export function multipartBody(
  fields: Readonly<Record<string, string>>,
  part: ArchivePart,
  boundary: string,
  sent: (sizeBytes: number) => void,
): { type: string; content: StreamBody } {
  const head = Object.entries(fields)
    .map(([name, value]) => `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
    .join("");
  const open = Buffer.from(
    `${head}--${boundary}\r\ncontent-disposition: form-data; name="${part.name}"; filename="${part.name}.tgz"\r\ncontent-type: ${part.type}\r\n\r\n`,
  );
  const close = Buffer.from(`\r\n--${boundary}--\r\n`);
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    content: {
      sizeBytes: open.length + part.sizeBytes + close.length,
      async *stream() {
        yield open;
        let sizeBytes = 0;
        for await (const chunk of createReadStream(part.file) as AsyncIterable<Buffer>) {
          yield chunk;
          sizeBytes += chunk.length;
          sent(sizeBytes);
        }
        yield close;
      },
    },
  };
}
