import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { limits } from "@svc/proto";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { type Cluster, startCluster } from "../cluster.ts";
import { edgeFetch } from "../support/edge.ts";
import { postSource, running } from "../support/source.ts";
import { waitFor } from "../support/wait-for.ts";

/** What a user sets is what a process holds: byte for byte, in the app, its release command, its build, and files. */

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ agents: 1, control: { SVC_DRAIN_SECONDS: "0.25" } });
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

type Vars = Record<string, string>;

async function newProject(name: string): Promise<string> {
  const { body } = await cluster.api("POST", "/projects", { name, type: "ssr" });
  return z.looseObject({ id: z.string() }).parse(body["project"]).id;
}

async function setEnv(projectId: string, vars: Vars, query = ""): Promise<void> {
  const { status, body } = await cluster.api("PUT", `/projects/${projectId}/env${query}`, { vars });
  expect([status, body["error"]]).toEqual([200, undefined]);
}

const part = fc.constantFrom(
  ...["'", '"', "`", "\\", "\n", "\r", "\r\n", "\t", "$", "$HOME", "$(id)", "%s", "=", " ", "#", "!", "*", "~", "{}"],
  ...["é", "\u0000c", "\u0081", "\u2028", "\ufeff", "\uffff", "e\u0301", "🎉", "\u{10ffff}", "\u001b[0m"],
);
const value = fc
  .oneof(
    fc.string({ unit: "binary", maxLength: 300 }),
    fc.array(part, { maxLength: 40 }).map((parts) => parts.join("")),
  )
  .filter((text) => text.isWellFormed() && !text.includes("\0"));

/** Names of every allowed form. What a shell or the platform sets itself is no test of ours. */
const forms = [
  ...["a", "_", "__", "Mixed_Case_9", "HOME", "HOSTNAME", "TERM", "X".repeat(limits.envKeyLengthMax)],
  ...["constructor", "toString", "valueOf", "hasOwnProperty", "__defineGetter__", "prototype", "then"],
];
const notOurs = /^SVC_|^(__proto__|PWD|OLDPWD|IFS|PPID|OPTIND|PATH|PORT)$/;
const name = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{2,20}$/).filter((text) => !notOurs.test(text));

const edges = ["", " ", "\n", "  both ends  ", "\ttabs\t", "'", '"', "\\", "a=b=c", "line\n\nline\n"];
const large = ["x".repeat(limits.envValueBytesMax), `"'`.repeat(limits.envValueBytesMax / 2), "é".repeat(16 * 1024)];

/** `count` variables with all forms of names and every kind of value. */
function sample(count: number): Vars {
  const names = [...new Set([...forms, ...fc.sample(name, count)])].slice(0, count);
  const values = [...edges, ...large, ...fc.sample(value, count)];
  return Object.fromEntries(names.map((each, at) => [each, values[at] ?? ""]));
}

const digest = (text: string) => createHash("sha256").update(text).digest("hex");

/** Says what a process holds: whole, or, for a log that shows no value, as digests of each name and its value. */
const environ = `
  import { createHash } from "node:crypto";
  import { readFileSync } from "node:fs";
  export const environ = () => readFileSync("/proc/self/environ");
  const digest = (text) => createHash("sha256").update(Buffer.from(text, "latin1")).digest("hex");
  export const digests = () =>
    environ().toString("latin1").split("\\0").filter(Boolean).map((pair) => {
      const at = pair.indexOf("=");
      return "holds " + digest(pair.slice(0, at)) + " " + digest(pair.slice(at + 1));
    });
`;
const files = {
  "package.json": JSON.stringify({ name: "app", type: "module", scripts: { build: "node build.js" } }),
  "environ.mjs": environ,
  "build.js": `import { writeFileSync } from "node:fs";
    import { environ } from "./environ.mjs";
    writeFileSync("built.txt", environ().toString("base64"));`,
  "release.js": `import { digests } from "./environ.mjs"; console.log(digests().join("\\n"));`,
  "server.js": `import { readFileSync } from "node:fs";
    import { createServer } from "node:http";
    import { environ } from "./environ.mjs";
    createServer(({ url }, reply) => {
      reply.end(url === "/built" ? readFileSync("built.txt") : environ().toString("base64"));
    }).listen(Number(process.env.PORT));`,
};
const manifest = {
  version: 2,
  channel: "production",
  app: { name: "Environment", type: "ssr" },
  start: { command: "node server.js" },
  release: { command: "node release.js" },
};

async function heldAt(url: string): Promise<Map<string, string>> {
  const reply = await edgeFetch(url);
  expect(reply.status).toBe(200);
  const pairs = Buffer.from(await reply.text(), "base64")
    .toString("utf8")
    .split("\0");
  return new Map(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}

/** A value in a message would be megabytes: of what differs only the names. */
const differing = (vars: Vars, held: (each: string) => string | undefined): string[] =>
  Object.keys(vars).filter((each) => held(each) !== vars[each]);

test("every value reaches build, release command and app byte for byte, a channel's over the project's", async () => {
  const projectId = await newProject("Environment");
  const base = sample(190);
  const overlay = {
    ...Object.fromEntries(
      Object.keys(base)
        .slice(5, 25)
        .map((each, at) => [each, edges[at] ?? "over"]),
    ),
    OnlyHere: "'\"",
  };
  await setEnv(projectId, base);
  await setEnv(projectId, overlay, "?channel=production");
  await setEnv(projectId, { NotHere: "of a preview" }, "?channel=preview");
  const { body } = await cluster.api("GET", `/projects/${projectId}/env`);
  expect(differing(base, (each) => z.record(z.string(), z.string()).parse(body["vars"])[each])).toEqual([]);

  const vars: Vars = { ...base, ...overlay };
  const { id } = await postSource(cluster, { projectId, manifest, files });
  const { url } = await running(cluster, id);
  const app = await heldAt(`${url}/environ`);
  expect(differing(vars, (each) => app.get(each))).toEqual([]);
  expect([app.get("SVC_CHANNEL"), app.has("NotHere")]).toEqual(["production", false]);
  const built = await heldAt(`${url}/built`);
  expect(differing(vars, (each) => built.get(each))).toEqual([]);

  // What a command writes comes by itself, perhaps after the news of its end.
  const held = await waitFor("every name in the log", 30_000, async () => {
    const log = String((await cluster.api("GET", `/deployments/${id}/logs`)).body["log"]);
    const found = new Map(
      [...log.matchAll(/holds ([0-9a-f]{64}) ([0-9a-f]{64})/g)].map(([, each = "", sum]) => [each, sum]),
    );
    return Object.keys(vars).every((each) => found.has(digest(each))) && found;
  });
  const wrong = Object.entries(vars).filter(([each, text]) => held.get(digest(each)) !== digest(text));
  expect(wrong.map(([each]) => each)).toEqual([]);
});

test("what is pulled into a file and pushed again is the same, and what a file cannot hold is refused", async () => {
  const [from, to] = [await newProject("From"), await newProject("To")];
  const vars = sample(120);
  await setEnv(from, vars);
  const dir = await cluster.exampleDir("static");
  const cli = (...args: string[]) => cluster.cli(["env", ...args, "--json"], { cwd: dir });
  const refused = await cli("pull", "--project", from, "--file", "a.env");
  // All three kinds of quotes, or a carriage return beside double quotes: some of that many values have it.
  const unfit = /cannot hold the values of (.*)$/.exec(
    String((refused.json()["error"] as { message?: string })?.message),
  )?.[1];
  const fit = Object.fromEntries(Object.entries(vars).filter(([each]) => !(unfit ?? "").split(", ").includes(each)));
  await setEnv(from, fit);
  expect((await cli("pull", "--project", from, "--file", "a.env")).exitCode).toBe(0);
  expect((await cli("push", "--project", to, "--file", "a.env")).exitCode).toBe(0);
  const { body } = await cluster.api("GET", `/projects/${to}/env`);
  expect(differing(fit, (each) => z.record(z.string(), z.string()).parse(body["vars"])[each])).toEqual([]);

  await writeFile(join(dir, "mine.env"), `export A="one\\ntwo" # remark\nB='$A "x"'\nC=\`it's\`\n`);
  expect((await cli("push", "--project", to, "--file", "mine.env", "--channel", "dev")).json()["keys"]).toEqual([
    "A",
    "B",
    "C",
  ]);
  expect((await cli("pull", "--project", to, "--file", "back.env", "--channel", "dev")).exitCode).toBe(0);
  expect(await readFile(join(dir, "back.env"), "utf8")).toBe(`A='one\ntwo'\nB='$A "x"'\nC=\`it's\`\n`);
});
