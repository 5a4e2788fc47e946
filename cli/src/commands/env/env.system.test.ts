import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseDotenv } from "@svc/proto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { aProject, ok, projectId, type Routes, refusal, startApi } from "../../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../../testing/svc.ts";
import { runAtTerminal } from "../../testing/terminal.ts";

const linked = { ".svc/state.json": JSON.stringify({ project: { id: projectId, slug: "shop" } }) };
const path = `/api/v1/projects/${projectId}/env`;
const canary = "hunter2-canary";

/** svc in a linked directory with `files`, against a platform with these answers. */
async function aPlace(answers: Routes, files: Record<string, string | Buffer> = {}) {
  const api = await startApi({
    [`GET /api/v1/projects/${projectId}`]: ok({ project: aProject() }),
    [`GET ${path}`]: ok({ vars: {} }),
    ...answers,
  });
  const directory = await aDirectory(linked);
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory.path, name), content);
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
  return {
    cwd: directory.path,
    seen: api.seen,
    run: (...args: string[]) => svc(["env", ...args], { cwd: directory.path, env }),
    runAtTerminal: (typed: string, ...args: string[]) =>
      runAtTerminal(["env", ...args], { cwd: directory.path, env, typed }),
    read: (name: string) => readFile(join(directory.path, name), "utf8").catch(() => null),
    async [Symbol.asyncDispose]() {
      await api[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

describe.concurrent("svc env pull", () => {
  const got = (vars: Record<string, string>): Routes => ({ [`GET ${path}`]: ok({ vars }) });

  test("says project, file and keys, and never a value, however it is asked", async () => {
    await using place = await aPlace(got({ A: canary, B: `${canary}\n2` }));
    for (const more of [["--json"], ["--json", "--verbose"], ["--verbose"], []]) {
      const ended = await place.run("pull", ...more);
      expect(ended.status).toBe(0);
      expect(ended.stdout + ended.stderr).not.toContain(canary);
      if (more[0] === "--json")
        expect(envelopeOf(ended)).toMatchObject({
          ok: true,
          operation: "env.pull",
          warnings: [],
          project: { id: projectId },
          file: ".env",
          keys: ["A", "B"],
        });
    }
    expect(await place.read(".env")).toBe(`A=${canary}\nB='${canary}\n2'\n`);
  });

  test("a file that others could read is for its owner alone afterwards, and nothing is left beside it", async () => {
    await using place = await aPlace(got({ A: "1" }), { ".env": "A=1\n" });
    await chmod(join(place.cwd, ".env"), 0o644);
    expect((await place.run("pull")).status).toBe(0);
    expect((await stat(join(place.cwd, ".env"))).mode & 0o777).toBe(0o600);
    expect((await readdir(place.cwd)).filter((name) => name.includes(".env"))).toEqual([".env"]);
  });

  test("what only the file had is told by name when nobody can be asked", async () => {
    await using place = await aPlace(got({ A: "new", SAME: "1" }), { ".env": `A=${canary}\nSAME=1\nGONE=${canary}\n` });
    const ended = await place.run("pull", "--json");
    expect(envelopeOf(ended)).toMatchObject({
      ok: true,
      warnings: [".env was replaced: GONE is only there; A has another value there"],
    });
    expect(ended.stdout + ended.stderr).not.toContain(canary);
    expect(await place.read(".env")).toBe("A=new\nSAME=1\n");
  });

  test("of a channel it asks for that channel's alone", async () => {
    await using place = await aPlace(got({ ONLY: "preview" }));
    const envelope = envelopeOf(await place.run("pull", "--channel", "preview", "--file", "p.env", "--json"));
    expect(envelope).toMatchObject({ ok: true, channel: "preview", file: "p.env", keys: ["ONLY"] });
    expect(place.seen.at(-1)?.path).toBe(`${path}?channel=preview`);
    expect(await place.read("p.env")).toBe("ONLY=preview\n");
    const wrong = await place.run("pull", "--channel", "prod", "--json");
    expect([wrong.status, envelopeOf(wrong)]).toMatchObject([2, { error: { code: "CLI_INVALID_USAGE" } }]);
  });

  test("a directory in the file's place stays", async () => {
    await using place = await aPlace(got({ A: canary }));
    await mkdir(join(place.cwd, ".env"));
    const ended = await place.run("pull", "--json");
    expect([ended.status, envelopeOf(ended)]).toMatchObject([2, { error: { code: "CLI_INVALID_USAGE" } }]);
    expect(ended.stdout + ended.stderr).not.toContain(canary);
    expect((await stat(join(place.cwd, ".env"))).isDirectory()).toBe(true);
  });
});

describe.concurrent("svc env push", () => {
  const put = `PUT ${path}`;

  test("says project and keys, and never a value, whatever the platform answers", async () => {
    await using fine = await aPlace({ [put]: ok({ keys: ["A"] }) }, { ".env": `A=${canary}\n` });
    const ended = await fine.run("push", "--json", "--verbose");
    expect(envelopeOf(ended)).toMatchObject({
      ok: true,
      operation: "env.push",
      project: { id: projectId },
      keys: ["A"],
    });
    expect(ended.stdout + ended.stderr).not.toContain(canary);

    const answers = { [put]: refusal(422, "VALIDATION", `vars.A: ${canary} is not allowed`) };
    await using refusing = await aPlace(answers, { ".env": `A=${canary}\n` });
    for (const more of [["--json", "--verbose"], []]) {
      const refused = await refusing.run("push", ...more);
      expect(refused.status).toBe(1);
      expect(refused.stdout + refused.stderr).toContain("vars.A: [redacted] is not allowed");
      expect(refused.stdout + refused.stderr).not.toContain(canary);
    }
  });

  test("sends a channel's to that channel", async () => {
    await using place = await aPlace({ [put]: ok({ keys: ["A"] }) }, { ".env": "A=1\n" });
    const ended = await place.run("push", "--channel", "dev");
    expect([ended.status, ended.stdout]).toEqual([0, expect.stringContaining("Its dev channel has 1 variable: A")]);
    expect(place.seen.at(-1)?.path).toBe(`${path}?channel=dev`);
  });

  test.each([
    { when: "a line is no assignment", file: `A=1\n${canary}\n`, tells: /in line 2$/ },
    { when: "a quote is not closed", file: `A=1\n\nB="${canary}\n`, tells: /in line 3$/ },
    { when: "it is not UTF-8", file: Buffer.from([0x41, 0x3d, 0xff, 0xfe]), tells: /not text in UTF-8$/ },
    { when: "it is too large", file: Buffer.alloc(4 * 1024 * 1024 + 1, "#"), tells: /larger than/ },
  ])("is refused before anything is sent when $when", async ({ file, tells }) => {
    await using place = await aPlace({}, { ".env": file });
    const ended = await place.run("push", "--json", "--verbose");
    expect([ended.status, envelopeOf(ended)]).toMatchObject([2, { error: { code: "CLI_INVALID_USAGE" } }]);
    expect(envelopeOf(ended)).toMatchObject({ error: { message: expect.stringMatching(tells) } });
    expect(ended.stdout + ended.stderr).not.toContain(canary);
    expect(place.seen).toEqual([]);
  });

  const held = { [`GET ${path}`]: ok({ vars: { A: "1", GONE: canary, LOST: canary } }) };

  test.each([[""], ["A=2\n"]])("of %j tells a program by name what is removed, and is not refused", async (file) => {
    await using place = await aPlace({ ...held, [put]: ok({ keys: [] }) }, { ".env": file });
    const ended = await place.run("push", "--json", "--verbose");
    const gone = file === "" ? "A, GONE, LOST" : "GONE, LOST";
    expect([ended.status, envelopeOf(ended)]).toMatchObject([
      0,
      { ok: true, warnings: [`Removed ${gone}, which .env does not name`] },
    ]);
    expect(ended.stdout + ended.stderr).not.toContain(canary);
    expect(place.seen.map(({ method }) => method)).toEqual(["GET", "PUT"]);
  });

  test("looks at the same channel, and goes on where the key may not read", async () => {
    await using place = await aPlace(
      { [`GET ${path}`]: refusal(403, "FORBIDDEN_SCOPE"), [put]: ok({ keys: ["A"] }) },
      { ".env": "A=1\n" },
    );
    const ended = await place.run("push", "--channel", "dev", "--json");
    expect(envelopeOf(ended)).toMatchObject({ ok: true, warnings: [], keys: ["A"] });
    expect(place.seen.map(({ method, path: asked }) => `${method} ${asked}`)).toEqual([
      `GET ${path}?channel=dev`,
      `PUT ${path}?channel=dev`,
    ]);
  });

  test.each([
    { types: "shop\r", more: [], status: 0, sent: true },
    { types: "no\r", more: [], status: 6, sent: false },
    { types: "", more: ["--yes"], status: 0, sent: true },
  ])("asks a person first, who types $types with $more: $status", async ({ types, more, status, sent }) => {
    await using place = await aPlace({ ...held, [put]: ok({ keys: ["A"] }) }, { ".env": "A=1\n" });
    const ended = await place.runAtTerminal(types, "push", ...more);
    expect(ended.status).toBe(status);
    if (types !== "") expect(ended.stderr).toContain("The project loses GONE, LOST, which .env does not name");
    expect(place.seen.some(({ method }) => method === "PUT")).toBe(sent);
  });

  test("without the file is ENV_FILE_NOT_FOUND", async () => {
    await using place = await aPlace({});
    const ended = await place.run("push", "--file", "none.env", "--json");
    expect([ended.status, envelopeOf(ended)]).toMatchObject([2, { error: { code: "ENV_FILE_NOT_FOUND" } }]);
  });
});

test("what was pushed from a file comes back as the same values", async () => {
  const part = fc.constantFrom(
    "'",
    '"',
    "`",
    "\\",
    "\n",
    "\\n",
    "#",
    "$",
    "=",
    " ",
    "é",
    "🎉",
    "\u2028",
    "{A}",
    "export ",
  );
  const value = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.array(part).map((parts) => parts.join("")),
  );
  const written = fc.sample(value, 200).flatMap((text, at) => {
    // However a person may have quoted it.
    const quote = ["'", '"', "`"].find((each) => !text.includes(each) && !text.endsWith("\\"));
    return quote === undefined || text.includes("\r") || text.includes("\0") ? [] : [`V${at}=${quote}${text}${quote}`];
  });
  const file = `# of a person\r\n${written.join("\n")}\nexport EMPTY=\nBARE = some words # and a remark\n`;
  const found = parseDotenv(file);
  const vars = "variables" in found ? Object.fromEntries(found.variables.map((each) => [each.name, each.value])) : {};
  expect(Object.keys(vars).length).toBeGreaterThan(150);

  await using pushing = await aPlace({ [`PUT ${path}`]: ok({ keys: [] }) }, { ".env": file });
  expect((await pushing.run("push")).status).toBe(0);
  const { vars: sent } = JSON.parse(String(pushing.seen.at(-1)?.body)) as { vars: Record<string, string> };
  expect(sent).toEqual(vars);
  await using pulling = await aPlace({ [`GET ${path}`]: ok({ vars: sent }), [`PUT ${path}`]: ok({ keys: [] }) });
  expect((await pulling.run("pull")).status).toBe(0);
  expect((await pulling.run("push")).status).toBe(0);
  expect(JSON.parse(String(pulling.seen.at(-1)?.body))).toEqual({ vars });
});
