import { join } from "node:path";
import { expect, test } from "vitest";
import { aDirectory } from "../testing/svc.ts";
import { multipartBody } from "./multipart.ts";

test("a body is what a form reader expects, and as long as it says", async () => {
  const content = "a\r\n--not-the-boundary\r\n".repeat(20_000);
  await using directory = await aDirectory({ "source.tgz": content });
  const part = {
    name: "source",
    file: join(directory.path, "source.tgz"),
    sizeBytes: Buffer.byteLength(content),
    type: "application/gzip",
  };
  const sent: number[] = [];
  const body = multipartBody({ manifest: '{"ä":1}', metadata: "{}" }, part, "svc-boundary", (size) => sent.push(size));
  const chunks: Uint8Array[] = [];
  for await (const chunk of body.content.stream()) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  // The file is read while it is sent, never as a whole.
  expect(Math.max(...chunks.map((chunk) => chunk.length))).toBeLessThanOrEqual(64 * 1024);
  expect(bytes.length).toBe(body.content.sizeBytes);
  expect(sent.at(-1)).toBe(part.sizeBytes);

  const form = await new Response(bytes, { headers: { "content-type": body.type } }).formData();
  expect([...form.keys()]).toEqual(["manifest", "metadata", "source"]);
  expect(form.get("manifest")).toBe('{"ä":1}');
  const source = form.get("source");
  if (!(source instanceof File)) throw new Error("source is no file");
  expect(source.type).toBe("application/gzip");
  expect(await source.text()).toBe(content);
});
