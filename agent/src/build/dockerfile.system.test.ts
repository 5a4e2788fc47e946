import { buffer } from "node:stream/consumers";
import { Observed, type PlacementStatus } from "@svc/proto/node";
import { extract } from "tar-stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type BuildBench, baseImage, createBuildBench, type TestBuild } from "../testing/builds.ts";
import { waitFor } from "../testing/wait.ts";

// What a project's own Dockerfile may count on, and what it never sees.

let bench: BuildBench;
beforeAll(async () => {
  bench = await createBuildBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
});

const reference = (status: PlacementStatus): string => `${bench.registryHost}/svc/p1/app@${status.build?.digest}`;

/** Files below a directory of the image that was made. */
async function filesOf(status: PlacementStatus, directory: string): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const within = AbortSignal.timeout(30_000);
  const read = async (tar: NodeJS.ReadableStream): Promise<void> => {
    const reader = extract();
    tar.pipe(reader as unknown as NodeJS.WritableStream);
    for await (const entry of reader) {
      const content = await buffer(entry as AsyncIterable<Uint8Array>);
      if (entry.header.type === "file") files.set(entry.header.name, content.toString());
    }
  };
  await bench.node.engine.exportFiles(reference(status), directory, read, within);
  return files;
}

async function succeed(
  text: string,
  files: Record<string, string>,
  spec: TestBuild = {},
): Promise<[PlacementStatus, string]> {
  const id = await bench.buildDockerfile(text, files, spec);
  const status = await bench.outcome(id);
  expect(status.failure).toBeUndefined();
  await waitFor("the log", () => bench.log(id).includes("Stored sha256:"));
  return [status, bench.log(id)];
}

test("the context is the root directory without what .dockerignore names", async () => {
  const files = {
    "secret.txt": "outside",
    "web/.dockerignore": "node_modules\n*.log\n!keep.log\n",
    "web/deploy/Dockerfile": `FROM ${baseImage} AS build\nCOPY . /all\nRUN echo made > /all/made.txt\nFROM scratch\nCOPY --from=build /all /all\nCMD ["x"]\n`,
    "web/a.log": "x",
    "web/keep.log": "kept",
    "web/node_modules/x.js": "x",
    "web/src/index.js": "code",
  };
  const recipe = { case: "image", value: { dockerfile: "deploy/Dockerfile", port: 3000 } } as const;
  const status = await bench.outcome(await bench.build(files, recipe, { rootDirectory: "web" }));
  expect(status.failure).toBeUndefined();
  const found = await filesOf(status, "/all");
  expect([...found.keys()].sort()).toEqual([
    "all/.dockerignore",
    "all/deploy/Dockerfile",
    "all/keep.log",
    "all/made.txt",
    "all/src/index.js",
  ]);
  await bench.removeImage(status);
});

test("what comes from the project is root's in a build, to read and to change", async () => {
  const [status, log] = await succeed(
    `FROM ${baseImage}\nCOPY sub /copied/\nADD . /added/\nRUN stat -c '%n %u %g' /copied /copied/file /added/sub /added/sub/file && echo >> /copied/file\n`,
    { "sub/file": "x" },
  );
  expect(log).toMatch(
    /#\d+ \/copied 0 0\n#\d+ \/copied\/file 0 0\n#\d+ \/added\/sub 0 0\n#\d+ \/added\/sub\/file 0 0\n/,
  );
  await bench.removeImage(status);
});

test("steps trust the operator's CA bundle, and nothing of it is in the image", async () => {
  const [status, log] = await succeed(
    `FROM ${baseImage}\nUSER node\nRUN cat "$NODE_EXTRA_CA_CERTS" && echo "same $SSL_CERT_FILE"\nRUN env > /tmp/env.txt\n`,
    {},
    { caBundle: "-----THE CA BUNDLE-----\n" },
  );
  expect(log).toContain("-----THE CA BUNDLE-----");
  expect(log).toContain("same /run/svc-build/ca.pem");
  // What it was mounted upon may have stayed, empty.
  expect([...(await filesOf(status, "/run")).values()].join("")).toBe("");
  const inspect = await bench.node.engine.findImage(reference(status));
  expect(inspect).not.toBeNull();
  await bench.removeImage(status);
});

test("a step sees nothing of the platform: no environment, socket, device or privilege", async () => {
  process.env["SVC_TEST_SECRET"] = "of-the-agent";
  const look = [
    "env | cut -d= -f1 | sort | tr '\\n' ' '",
    "echo",
    "find / -xdev -name '*.sock' 2>/dev/null; ls /run /var/run | tr '\\n' ' '",
    "grep -E '^(Seccomp|CapEff):' /proc/self/status",
    "mount -t tmpfs x /mnt 2>&1 || true",
    "unshare -r true 2>&1 || true",
    "cat /proc/1/cmdline | tr '\\0' ' '",
  ].join("\nRUN ");
  const [status, log] = await succeed(`FROM ${baseImage}\nRUN ${look}\n`, {});
  delete process.env["SVC_TEST_SECRET"];
  expect(log).not.toContain("of-the-agent");
  expect(/#\d+ (HOME .*)/.exec(log)?.[1]?.trim().split(" ")).toEqual(["HOME", "NODE_VERSION", "PATH", "PWD"]);
  expect(log).not.toContain("docker.sock");
  expect(log).toMatch(/Seccomp:\s+2/);
  // None of SYS_ADMIN, NET_ADMIN, SYS_PTRACE, SYS_MODULE.
  expect(Number.parseInt(/CapEff:\s+([0-9a-f]+)/.exec(log)?.[1] ?? "ff", 16) & 0x3b1000).toBe(0);
  expect(log).toMatch(/mount: .*(?:permission denied|must be superuser)/i);
  expect(log).toMatch(/unshare: .*not permitted/i);
  await bench.removeImage(status);
});

test("values of the environment are redacted, also when they come in pieces and over lines", async () => {
  const secret = "0123456789abcdef0123456789abcdef01234567";
  const pem = "-----BEGIN KEY-----\nabcdef\n-----END KEY-----";
  const program = `
    process.stdout.write("token ${secret.slice(0, 20)}");
    setTimeout(() => process.stdout.write("${secret.slice(20)}\\n" + ${JSON.stringify(pem)} + "\\n10 %\\r50 %\\r100 %\\nshort: word\\n"), 500);
  `;
  const [status, log] = await succeed(
    `FROM ${baseImage}\nCOPY say.js /\nRUN node /say.js\n`,
    { "say.js": program },
    { redact: [secret, pem, "word"] },
  );
  expect(log).toMatch(/#\d+ token \[redacted\]\n#\d+ \[redacted\]\n#\d+ 100 %\n#\d+ short: word\n/);
  expect(log).not.toMatch(/0123456789|BEGIN KEY|50 %/);
  await bench.removeImage(status);
});

test("the log comes while the step runs", async () => {
  // It does not end by itself, so whatever comes of the log comes before the end.
  const id = await bench.buildDockerfile(
    `FROM ${baseImage}\nRUN echo first line && sleep 1123.58 && echo second line\n`,
  );
  await waitFor("the first line", () => /#\d+ first line/.test(bench.log(id)));
  expect(bench.log(id)).not.toMatch(/#\d+ second line/);
  await bench.stop(id);
  expect((await bench.outcome(id)).observed).toBe(Observed.STOPPED);
});
