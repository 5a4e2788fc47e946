import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runProgramSync } from "@svc/runtime/programs";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exportScript, generatedSecrets, ownSecrets, secretId } from "./build-env.ts";

const scope = { key: Buffer.alloc(32, 1), namespace: "p1" };

describe("the script of all variables", () => {
  let dir = "";
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), "svc-build-env-"));
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  /** What a program sees that a shell starts after the script, byte for byte. */
  function seenAfter(script: string): Map<string, string> {
    const file = join(dir, "env");
    writeFileSync(file, script);
    const steps = [`. ${file}; exec /bin/sh -c "$0"`, "cat /proc/self/environ"];
    const out = runProgramSync(["sh", "-c", ...steps], { env: {}, maxBuffer: 16 * 1024 * 1024 });
    const pairs = out.toString("latin1").split("\0").filter(Boolean);
    return new Map(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
  }
  const bytes = (value: string) => Buffer.from(value).toString("latin1");

  test("gives every value byte for byte, whatever is in it", () => {
    const part = fc.constantFrom(
      "'",
      '"',
      "`",
      "\\",
      "\n",
      "\r",
      "$",
      "$(id)",
      "=",
      " ",
      "#",
      "!",
      "é",
      "\u0081",
      "🎉",
      "\t",
    );
    const value = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.array(part, { maxLength: 30 }).map((parts) => parts.join("")),
    );
    const text = value.filter((each) => !each.includes("\0") && each.isWellFormed());
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 200 }), (values) => {
        const seen = seenAfter(exportScript(Object.fromEntries(values.map((each, at) => [`V${at}`, each]))));
        for (const [at, each] of values.entries()) expect(seen.get(`V${at}`)).toBe(bytes(each));
      }),
      { numRuns: 60 },
    );
  });

  test("also one of 32 KiB of nothing but quotes, which grows to no more than twice its size", () => {
    const worst = `'"`.repeat(16 * 1024);
    const script = exportScript({ A: worst, B: "'".repeat(32 * 1024) });
    expect(script.length).toBeLessThan(2.1 * 64 * 1024);
    const seen = seenAfter(script);
    expect(seen.get("A") === worst && seen.get("B") === "'".repeat(32 * 1024)).toBe(true);
  });

  test("leaves alone what a shell keeps for itself, and the way to programs", () => {
    expect(exportScript({ PATH: "/none", OPTIND: "x", PPID: "1", IFS: ":", A: "1" })).toBe("export A='1'\n");
  });
});

describe("the id of a secret", () => {
  test.each([
    { when: "a value", other: secretId("svc-env", { A: "2" }, scope) },
    { when: "a name", other: secretId("svc-env", { B: "1" }, scope) },
    { when: "the project", other: secretId("svc-env", { A: "1" }, { ...scope, namespace: "p2" }) },
    { when: "the node", other: secretId("svc-env", { A: "1" }, { ...scope, key: Buffer.alloc(32, 2) }) },
  ])("changes with $when", ({ other }) => {
    expect(other).not.toBe(secretId("svc-env", { A: "1" }, scope));
  });

  test("stays when nothing changed, in whatever order", () => {
    expect(secretId("svc-env", { A: "1", B: "2" }, scope)).toBe(secretId("svc-env", { B: "2", A: "1" }, scope));
    expect(secretId("svc-env", { A: "1" }, scope)).toMatch(/^svc-env-[0-9a-f]{32}$/);
  });
});

describe("a generated Dockerfile", () => {
  const variables = { VITE_A: "1", NPM_TOKEN: "t", NODE_ENV: "production", npm_config_loglevel: "info" };
  const scripts = (settings: string | null, some: Record<string, string> = variables) => {
    const { steps, secrets } = generatedSecrets(some, settings, scope);
    const of = (id: string | null) =>
      id === null
        ? null
        : secrets
            .get(id)
            ?.toString()
            .match(/(?<=export )\w+/g);
    return { install: of(steps.install), build: of(steps.build) };
  };

  test.each([
    {
      when: "its settings name a variable",
      settings: `//r.test/:_authToken=\${NPM_TOKEN}`,
      install: ["NPM_TOKEN", "npm_config_loglevel"],
    },
    { when: "they name a longer one", settings: "NPM_TOKENS VITE_AB", install: ["npm_config_loglevel"] },
    { when: "it runs what may read anything", settings: null, install: ["NPM_TOKEN", "VITE_A", "npm_config_loglevel"] },
  ])("installs with what it needs when $when, and builds with everything", ({ settings, install }) => {
    expect(scripts(settings)).toEqual({ install, build: ["NODE_ENV", "NPM_TOKEN", "VITE_A", "npm_config_loglevel"] });
  });

  test("mounts nothing when there is nothing", () => {
    expect(scripts("", {})).toEqual({ install: null, build: null });
    expect(scripts("", { A: "1" })).toEqual({ install: null, build: ["A"] });
  });

  test("does not install again because a variable changed that installing does not see", () => {
    const ids = (some: Record<string, string>) => generatedSecrets(some, "NPM_TOKEN", scope).steps;
    const [one, two] = [ids({ NPM_TOKEN: "t", VITE_A: "1" }), ids({ NPM_TOKEN: "t", VITE_A: "2" })];
    expect(two.install).toBe(one.install);
    expect(two.build).not.toBe(one.build);
  });
});

test("a Dockerfile of the project may mount each variable, and all of them", () => {
  const { ids, secrets } = ownSecrets({ A: "it's", PATH: "/x" }, scope);
  const read = (name: string) => secrets.get(ids.get(name) ?? "")?.toString();
  expect([...ids.keys()]).toEqual(["A", "PATH", "svc-env"]);
  expect([read("A"), read("PATH"), read("svc-env")]).toEqual(["it's", "/x", `export A="it's"\n`]);
});
