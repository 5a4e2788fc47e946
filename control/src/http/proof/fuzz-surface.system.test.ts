import { randomInt } from "node:crypto";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { rawTar } from "../../../../proto/src/testing/tar.ts";
import { apiEndpoints } from "../../server.ts";
import { isDeclared } from "../declared.ts";
import { signInCookieName } from "../sign-in-cookie.ts";
import { type Answer, type CallOptions, type TestApi, testApi } from "../testing.ts";
import { rawRequest, sendRaw, statusesOf } from "../testing-raw.ts";
import { encode, mutated, nastyJson, nastyText } from "./arbitrary.ts";
import { newPeople, type People } from "./credentials.ts";

const runs = 3 * Number(process.env["SVC_FUZZ_RUNS"] ?? 64);
const seed = Number(process.env["SVC_FUZZ_SEED"] ?? 20_250_101);
const settings = { seed, numRuns: runs };
/** Ends a run that hangs; a busy machine takes fifty times as long as an idle one. */
const timeoutMs = Math.max(300_000, runs * 5_000);

let api: TestApi;
let people: People;
beforeAll(async () => {
  api = await testApi();
  people = await newPeople(api);
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});

const from = () => ({ "x-forwarded-for": `10.${randomInt(256)}.${randomInt(256)}.1` });
/** A header's value holds bytes, and neither line ends nor what is invisible. */
const headerText = nastyText.map((text) =>
  Buffer.from(text)
    .toString("latin1")
    .replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, "")
    .slice(0, 2000),
);
const isEnvelope = ({ status, body }: Pick<Answer, "status" | "body">): boolean =>
  body.ok === false && status >= 400 && status < 500;

test(
  "nothing that somebody made up is a credential",
  async () => {
    const cookieName = signInCookieName(api.url);
    const credential: fc.Arbitrary<Record<string, string>> = fc.oneof(
      headerText.map((text) => ({ "x-api-key": text })),
      headerText.map((text) => ({ "x-api-key": `svc_${text}` })),
      headerText.map((text) => ({ authorization: text })),
      headerText.map((text) => ({ authorization: `Bearer ${text}` })),
      headerText.map((text) => ({ cookie: text, origin: api.url })),
      headerText.map((text) => ({ cookie: `${cookieName}=${text}`, origin: api.url })),
      headerText.map((text) => ({ cookie: `${cookieName}=${people.owner.session}.${text}`, origin: api.url })),
      fc
        .tuple(headerText, headerText)
        .map(([key, cookie]) => ({ "x-api-key": key, cookie: `${cookieName}=${cookie}` })),
    );
    const property = fc.asyncProperty(credential, async (headers) => {
      const answer = await api.call("GET", "/me", { headers: { ...headers, ...from() } });
      expect([answer.status, answer.body.error?.code]).toEqual([401, "UNAUTHORIZED"]);
    });
    await fc.assert(property, settings);
  },
  timeoutMs,
);

/** The answer to a request that no client tidies up before it is sent. */
async function askRaw(method: string, address: string): Promise<Pick<Answer, "status" | "body" | "text">> {
  const headers = [`host: ${new URL(api.url).host}`, "connection: close", `x-forwarded-for: 10.0.0.${randomInt(256)}`];
  const answer = await sendRaw(api.url, rawRequest(`${method} ${address} HTTP/1.1`, headers));
  const [head = "", text = ""] = answer.split("\r\n\r\n");
  const isJson = /content-type: application\/json/i.test(head);
  return { status: statusesOf(answer)[0] ?? 0, text, body: isJson && text !== "" ? JSON.parse(text) : {} };
}

test(
  "no address makes the API fail, and none that is not its own is answered",
  async () => {
    const words = [
      "projects",
      "deployments",
      "tokens",
      "admin",
      "me",
      "env",
      "..",
      ".",
      "",
      "%2e%2e",
      "%",
      "%ff",
      "%00",
    ];
    const encoded = nastyText.map((text) => encode(text).slice(0, 3000));
    const plain = nastyText.map((text) => text.replaceAll(/[^\x21-\x7e]/g, "").slice(0, 3000));
    const path = fc
      .array(fc.oneof(fc.constantFrom(...words), encoded, plain), { maxLength: 6 })
      .map((parts) => `/api/v1/${parts.join("/")}`);
    const method = fc.constantFrom("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "PROPFIND", "NONE");
    const property = fc.asyncProperty(method, path, async (verb, address) => {
      const answer = await askRaw(verb, address);
      if (verb === "HEAD") expect([400, 401, 404, 405, 414]).toContain(answer.status);
      else expect(isEnvelope(answer), `${answer.status} ${answer.text.slice(0, 200)}`).toBe(true);
    });
    await fc.assert(property, settings);
  },
  timeoutMs,
);

type Bytes = Uint8Array<ArrayBuffer>;
const archive = gzipSync(rawTar({ name: "server.js", content: Buffer.alloc(3000, "x") }));
const manifest = { version: 2, app: { name: "Shop", type: "ssr", port: 3000 }, env: { files: [".env"] } };
const metadata = { trigger: "cli", gitSha: "0123ABCdef", gitPrNumber: 7 };

const texts = fc.oneof(
  fc.constantFrom(manifest, metadata).map((value) => JSON.stringify(value)),
  mutated(manifest).map((value) => JSON.stringify(value) ?? ""),
  mutated(metadata).map((value) => JSON.stringify(value) ?? ""),
  nastyJson.map((value) => JSON.stringify(value) ?? ""),
  nastyText,
);
const bytes: fc.Arbitrary<Bytes> = fc.oneof(
  fc.constant(Uint8Array.from(archive)),
  fc.integer({ min: 0, max: archive.length }).map((length) => Uint8Array.from(archive.subarray(0, length))),
  fc.uint8Array({ maxLength: 200 }).map((content) => Uint8Array.from(gzipSync(content))),
  fc.uint8Array({ maxLength: 200 }).map((content) => Uint8Array.from(content)),
);
const names = fc.constantFrom(
  "manifest",
  "manifest",
  "metadata",
  "source",
  "source",
  "__proto__",
  "",
  "manifest[]",
  'a"b',
  "x".repeat(300),
);
interface Part {
  name: string;
  text: string;
  bytes: Bytes;
  isFile: boolean;
  type: string;
}
const part: fc.Arbitrary<Part> = fc.record({
  name: names,
  text: texts,
  bytes,
  isFile: fc.boolean(),
  type: fc.constantFrom("", "application/json", "text/plain; charset=x"),
});

/** A body of the parts as they are, valid or not. */
function multipart(parts: Part[], { cut, boundary }: { cut: number; boundary: string }): Bytes {
  const lines = parts.flatMap(({ name, text, bytes: content, isFile, type }) => [
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"${isFile ? '; filename="f"' : ""}\r\n`),
    Buffer.from(`${type === "" ? "" : `Content-Type: ${type}\r\n`}\r\n`),
    isFile ? Buffer.from(content) : Buffer.from(text),
    Buffer.from("\r\n"),
  ]);
  const whole = Buffer.concat([...lines, Buffer.from(`--${boundary}--\r\n`)]);
  return Uint8Array.from(whole.subarray(0, Math.max(0, whole.length - cut)));
}

test(
  "no upload makes the API fail or say what it does not declare",
  async () => {
    const spec = apiEndpoints.find(({ upload }) => upload);
    if (spec === undefined) throw new Error("there is no upload");
    const { id } = await api.newProject(people.owner);
    const sent = fc.record({
      parts: fc.array(part, { maxLength: 5 }),
      cut: fc.oneof({ arbitrary: fc.constant(0), weight: 3 }, fc.integer({ min: 0, max: 300 })),
      boundary: fc.constantFrom("x", "----form", "'()+_,-./:=?"),
      told: fc.constantFrom(
        null,
        null,
        null,
        "multipart/form-data",
        'multipart/form-data; boundary="',
        "multipart/form-data; boundary=y",
      ),
    });
    const property = fc.asyncProperty(sent, async ({ parts, cut, boundary, told }) => {
      const options: CallOptions = {
        session: people.owner.session,
        body: multipart(parts, { cut, boundary }),
        headers: { ...from(), "content-type": told ?? `multipart/form-data; boundary="${boundary}"` },
      };
      const answer = await api.call("POST", `/projects/${id}/deployments`, options);
      const { code } = answer.body.error;
      // No registry is there to keep what was good.
      expect(answer.status === 503 || isEnvelope(answer), answer.text).toBe(true);
      expect(isDeclared(spec, answer.status, code), `${answer.status} ${code}`).toBe(true);
    });
    await fc.assert(property, settings);
  },
  timeoutMs,
);
