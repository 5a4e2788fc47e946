import { readFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryRoot } from "@svc/deploy/paths";
import { expect, test } from "vitest";
import { sourcesOf } from "./sources.ts";

const { workspaces } = JSON.parse(readFileSync(join(repositoryRoot, "package.json"), "utf8")) as {
  workspaces: string[];
};

/** The one place where `realtime` has the machine's timers and chance: it is published by itself, without `runtime`. */
const machineOfRealtime = "realtime/src/machine.ts";

/** What is part of a program: neither a test, nor what tests share. `runtime` holds the machine's clock itself. */
const product = workspaces
  .filter((workspace) => workspace !== "runtime" && workspace !== "test")
  .flatMap(sourcesOf)
  .filter(({ path }) => !/\.test\.ts$|\/testing/.test(path) && path !== machineOfRealtime);

/** What asks the machine for the time, or for chance, and what to take instead. */
const machines: readonly { pattern: RegExp; instead: string }[] = [
  { pattern: /\bDate\.now\b/, instead: "clock.now(), or clock.steadyMs() for how long something lasts" },
  { pattern: /\bnew Date\(\)/, instead: "clock.now()" },
  { pattern: /\bperformance\.now\b/, instead: "clock.steadyMs()" },
  { pattern: /(?<![.\w])setTimeout\(/, instead: "clock.after(), or sleep() and pause() of @svc/runtime/sleep" },
  { pattern: /(?<![.\w])setInterval\(/, instead: "every() of @svc/runtime/clock" },
  { pattern: /(?<![.\w])setImmediate\(/, instead: "clock.soon()" },
  { pattern: /\bAbortSignal\.timeout\b/, instead: "clock.abortAfter()" },
  { pattern: /["']node:timers\b/, instead: "sleep() and pause() of @svc/runtime/sleep" },
  { pattern: /\bMath\.random\b/, instead: "random.next()" },
  { pattern: /\brandomUUID\b/, instead: "random.uuid()" },
];

/** The machine's own clock and chance are taken where a program begins, or a child process, and handed on from there. */
const begins = /^[a-z]+\/src\/(?:start|(?:.+\/)?main)\.ts$/;

/** As long as the text, so that lines keep their numbers. */
const withoutComments = (text: string): string =>
  text.replace(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm, (comment) => comment.replace(/[^\n]/g, " "));

test("whoever needs the time or chance is handed a Clock or a Random", () => {
  const wrong = product.flatMap(({ path, text }) =>
    withoutComments(text)
      .split("\n")
      .flatMap((line, index) =>
        machines
          .filter(({ pattern }) => pattern.test(line))
          .map(({ instead }) => `${path}:${index + 1} asks the machine; let it be handed what it needs: ${instead}`),
      ),
  );
  expect(wrong).toEqual([]);
});

test("only what begins a program takes the machine's clock and chance", () => {
  const wrong = product
    .filter(
      ({ path, imports }) => !begins.test(path) && imports.some(({ specifier }) => specifier === "@svc/runtime/system"),
    )
    .map(({ path }) => `${path} imports @svc/runtime/system; take the clock or random of whoever calls it`);
  expect(wrong).toEqual([]);
});

test("only what applications import of realtime takes its machine, and hands it on", () => {
  const taking = product
    .filter(({ path, imports }) => path.startsWith("realtime/") && imports.some(takesMachine))
    .map(({ path }) => path);
  expect(taking.toSorted()).toEqual(["client", "index", "postgres"].map((entry) => `realtime/src/${entry}.ts`));
});

const takesMachine = ({ specifier, typeOnly }: { specifier: string; typeOnly: boolean }): boolean =>
  specifier.endsWith("/machine.ts") && !typeOnly;
