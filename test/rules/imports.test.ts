import { posix } from "node:path";
import { describe, expect, test } from "vitest";
import { type SourceFile, sourcesOf } from "./sources.ts";

/**
 * Which of our packages each workspace may import. Nobody may import `test`, and programs never one another. Tests of all
 * of them start programs, so they may import `runtime`.
 */
const arrows: Record<string, readonly string[]> = {
  runtime: [],
  proto: [],
  registry: ["@svc/runtime", "@svc/proto"],
  uplink: ["@svc/runtime", "@svc/proto"],
  telemetry: ["@svc/runtime"],
  control: ["@svc/runtime", "@svc/proto", "@svc/registry", "@svc/telemetry"],
  agent: ["@svc/runtime", "@svc/proto", "@svc/registry", "@svc/uplink", "@svc/telemetry"],
  router: ["@svc/runtime", "@svc/proto", "@svc/registry", "@svc/uplink", "@svc/telemetry"],
  dbproxy: ["@svc/runtime", "@svc/proto", "@svc/telemetry"],
  cli: ["@svc/runtime", "@svc/proto"],
  // Published by itself: whoever installs it has none of the others.
  realtime: [],
  deploy: ["@svc/runtime", "@svc/proto"],
  test: [
    "@svc/runtime",
    "@svc/proto",
    "@svc/registry",
    "@svc/uplink",
    "@svc/control",
    "@svc/agent",
    "@svc/router",
    "@svc/dbproxy",
    "@svc/deploy",
    // The published command line, packed and installed.
    "@svc/cli",
  ],
};

const isOurs = (specifier: string) => specifier.startsWith("@svc/") || specifier.startsWith("svc-cli");
const packageOf = (specifier: string) =>
  specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
/** All of the workspace `test` is, and of the others what is named so. */
const isTest = ({ path }: Pick<SourceFile, "path">) => /^test\/|(\.test|testing|\/fixtures\/).*\.ts$/.test(path);

describe.each(Object.entries(arrows))("%s", (workspace, allowed) => {
  const files = sourcesOf(workspace);

  test("imports only the packages it may know", () => {
    const wrong = files.flatMap((file) => {
      const may = isTest(file) ? [...allowed, "@svc/runtime"] : allowed;
      return file.imports
        .filter(({ specifier }) => isOurs(specifier) && !may.includes(packageOf(specifier)))
        .map(({ specifier }) => `${file.path} imports ${specifier}`);
    });
    expect(wrong).toEqual([]);
  });

  test("reaches another workspace by a relative path only for what tests of both share", () => {
    const wrong = files.flatMap((file) =>
      file.imports
        .map(({ specifier }) => ({ specifier, target: posix.join(posix.dirname(file.path), specifier) }))
        .filter(({ specifier, target }) => specifier.startsWith(".") && !target.startsWith(`${workspace}/`))
        .filter(
          ({ target }) =>
            !(isTest(file) && isTest({ path: target }) && allowed.includes(`@svc/${target.split("/")[0]}`)),
        )
        .map(({ specifier }) => `${file.path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test("names files with their ending", () => {
    const wrong = files.flatMap(({ path, imports }) =>
      imports
        .filter(({ specifier }) => specifier.startsWith(".") && !/\.(ts|mjs|json)$/.test(specifier))
        .map(({ specifier }) => `${path} imports ${specifier}`),
    );
    expect(wrong).toEqual([]);
  });
});

/** The first line of a file that only decides: no clock, no chance, no surroundings, no I/O, and nothing that has any of these. */
const mark = "// @pure\n";
const packages = [
  "runtime",
  "proto",
  "registry",
  "telemetry",
  "uplink",
  "control",
  "agent",
  "router",
  "dbproxy",
  "cli",
  "realtime",
];
const impureWords = [
  /\bDate\.now\(/,
  /\bnew Date\(\)/,
  /\bMath\.random\(/,
  /\bprocess\./,
  /\bperformance\.now\(/,
  /\basync\b/,
  /\bawait\b/,
];
/** What a file that only decides may use besides its own kind. All of `proto` is shapes and decisions. */
const pureLibraries = /^(@bufbuild\/protobuf|@svc\/proto(\/.*)?|zod|tldts|node:net|node:path|node:url)$/;

const withoutComments = (text: string): string => text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");

describe("files that only decide", () => {
  const all = packages.flatMap(sourcesOf).filter((file) => !isTest(file));
  const marked = all.filter(({ text }) => text.startsWith(mark));
  const pure = new Set(marked.map(({ path }) => path));

  test("are all rules and steps", () => {
    const wrong = all.filter(({ path }) => /\/(rules|steps)\.ts$/.test(path) && !pure.has(path));
    expect(wrong.map(({ path }) => `${path} lacks the mark ${mark.trim()}`)).toEqual([]);
  });

  test("import only what is pure", () => {
    const isPure = (path: string, specifier: string): boolean => {
      if (specifier.startsWith(".")) return pure.has(posix.join(posix.dirname(path), specifier));
      const [, file] = /^@svc\/runtime\/(.+)$/.exec(specifier) ?? [];
      return file === undefined ? pureLibraries.test(specifier) : pure.has(`runtime/src/${file}.ts`);
    };
    const wrong = marked
      .filter(({ path }) => !path.startsWith("proto/"))
      .flatMap(({ path, imports }) =>
        imports
          .filter(({ specifier, typeOnly }) => !typeOnly && !isPure(path, specifier))
          .map(({ specifier }) => `${path} imports ${specifier}`),
      );
    expect(wrong).toEqual([]);
  });

  test("take the time, chance and surroundings as arguments", () => {
    const wrong = marked.flatMap(({ path, text }) =>
      impureWords.filter((word) => word.test(withoutComments(text))).map((word) => `${path} has ${word.source}`),
    );
    expect(wrong).toEqual([]);
  });
});

/** Wings of control, lowest first: each imports from itself and from those before it. `null` is what stands at the top. */
const wings = ["settings", "metrics", "stores", "http", "identity", "fleet", "tenants", null];
const base = "control/src/";

/** Where a file of control stands in the list; the logger stands below everything. */
function floorOf(path: string): number {
  const [first = "", ...rest] = path.slice(base.length).split("/");
  if (path === `${base}log.ts`) return 0;
  const at = rest.length === 0 ? -1 : wings.indexOf(first);
  return at === -1 ? wings.length - 1 : at;
}

/** Files and what they import of their own package, types included. */
const graphOf = (files: readonly SourceFile[]): Map<string, string[]> =>
  new Map(
    files.map(({ path, imports }) => [
      path,
      imports
        .filter(({ specifier }) => specifier.startsWith("."))
        .map(({ specifier }) => posix.join(posix.dirname(path), specifier)),
    ]),
  );

/** A way from each node that comes back to it, as text; each circle once. */
function circlesIn(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const done = new Set<string>();
  const circles: string[] = [];
  const walk = (at: string, way: readonly string[]): void => {
    const before = way.indexOf(at);
    if (before !== -1) circles.push([...way.slice(before), at].join(" -> "));
    if (before !== -1 || done.has(at)) return;
    for (const next of graph.get(at) ?? []) walk(next, [...way, at]);
    done.add(at);
  };
  for (const start of graph.keys()) walk(start, []);
  return circles;
}

describe.each(Object.keys(arrows))("circles in %s", (workspace) => {
  test("there is none, types included", () => {
    expect(circlesIn(graphOf(sourcesOf(workspace).filter((file) => !isTest(file))))).toEqual([]);
  });
});

describe("inside control", () => {
  const files = sourcesOf("control").filter((file) => !isTest(file) && !file.path.startsWith(`${base}http/proof/`));

  test("no wing imports from one above it", () => {
    const wrong = [...graphOf(files)].flatMap(([path, targets]) =>
      targets.filter((target) => floorOf(target) > floorOf(path)).map((target) => `${path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  test("no two nouns of a wing import from one another, but for their endpoints", () => {
    const isEndpoint = (path: string) => /\/(endpoints|context)(\.ts|\/)/.test(path);
    const nounOf = (path: string) => path.slice(base.length).split("/").slice(0, 2).join("/");
    const nouns = new Map<string, string[]>();
    for (const [path, targets] of graphOf(files.filter(({ path }) => !isEndpoint(path)))) {
      const others = targets.map(nounOf).filter((noun) => noun !== nounOf(path));
      nouns.set(nounOf(path), [...new Set([...(nouns.get(nounOf(path)) ?? []), ...others])]);
    }
    expect(circlesIn(nouns)).toEqual([]);
  });

  test("endpoints and workers are known only to what puts the server together", () => {
    const assemblers = new Set([`${base}start.ts`, `${base}server.ts`]);
    const wrong = files.flatMap(({ path, imports }) =>
      imports
        .filter(({ typeOnly }) => !typeOnly)
        .map(({ specifier }) => posix.join(posix.dirname(path), specifier))
        .filter((target) => /\/(endpoints|worker)\.ts$/.test(target) && !target.startsWith(`${base}stores/work/`))
        .filter((target) => !assemblers.has(path) && posix.dirname(target) !== posix.dirname(path))
        // A noun's list holds those of the nouns within it.
        .filter((target) => !(path.endsWith("/endpoints.ts") && target.startsWith(`${posix.dirname(path)}/`)))
        .map((target) => `${path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  test("stores know neither endpoints nor HTTP", () => {
    const wrong = files
      .filter(({ path }) => path.endsWith("/store.ts"))
      .flatMap(({ path, imports }) =>
        imports
          .filter(({ specifier, typeOnly }) => !typeOnly && /fastify|\/http\/(endpoint|errors)\.ts$/.test(specifier))
          .map(({ specifier }) => `${path} imports ${specifier}`),
      );
    expect(wrong).toEqual([]);
  });
});

describe("realtime", () => {
  test("needs nothing that an application would have to install, but React for the hook", () => {
    const needed = sourcesOf("realtime")
      .filter((file) => !isTest(file))
      .flatMap(({ path, imports }) =>
        imports
          .filter(({ specifier, typeOnly }) => !typeOnly && !specifier.startsWith("."))
          .map(({ specifier }) => `${path} imports ${specifier}`),
      );
    expect(needed).toEqual(["realtime/src/react.ts imports react"]);
  });
});

describe("environment variables", () => {
  test("are read by the programs' main files only", () => {
    const wrong = ["control", "agent", "router", "dbproxy", "uplink", "registry", "proto", "realtime"]
      .flatMap(sourcesOf)
      .filter((file) => !isTest(file) && !file.path.endsWith("/src/main.ts") && /\bprocess\.env\b/.test(file.text))
      .map(({ path }) => path);
    expect(wrong).toEqual([]);
  });
});
