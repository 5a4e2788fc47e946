import { stringify } from "yaml";

/** What a directory tells about the application in it. */
export type DirectoryFacts = {
  /** Last part of the directory's path. */
  name: string;
  /** What `package.json` says; null without one. */
  package: { name: string | null; scripts: readonly string[]; dependencies: readonly string[] } | null;
  hasDockerfile: boolean;
};

/** Frameworks whose `start` script serves requests; everything else with a build is taken to make files. */
const serverPackages = [
  "next",
  "nuxt",
  "@remix-run/serve",
  "@react-router/serve",
  "@sveltejs/adapter-node",
  "@astrojs/node",
  "express",
  "fastify",
  "hono",
  "koa",
  "@nestjs/core",
  "h3",
];

/** A first manifest for a directory, as YAML with comments. `name` is what the person asked for, if anything. */
export function plainManifest(facts: DirectoryFacts, name: string | undefined): { text: string; app: string } {
  const app = name ?? tidyName(facts.package?.name ?? null) ?? tidyName(facts.name) ?? "app";
  const scripts = facts.package?.scripts ?? [];
  const serves =
    facts.hasDockerfile ||
    scripts.includes("start") ||
    serverPackages.some((each) => facts.package?.dependencies.includes(each));
  const build = scripts.includes("build");
  const text = [
    "# What svc deploys from this directory. Check it with `svc manifest validate`.",
    "version: 2",
    ...(serves ? serverLines(app, facts, { build, start: scripts.includes("start") }) : siteLines(app, build)),
  ];
  return { text: `${text.join("\n")}\n`, app };
}

const quoted = (text: string): string => stringify(text).trimEnd();

const serverLines = (app: string, facts: DirectoryFacts, scripts: { build: boolean; start: boolean }): string[] => [
  "app:",
  `  name: ${quoted(app)}`,
  "  type: ssr",
  "  # The app listens on all addresses at this port, which it also finds in PORT.",
  "  port: 3000",
  ...(facts.hasDockerfile
    ? ["build:", "  dockerfile: Dockerfile"]
    : [
        ...(scripts.build ? ["build:", "  command: npm run build"] : []),
        ...(scripts.start ? ["start:", "  command: npm start"] : []),
      ]),
  "health:",
  "  # Traffic arrives once this path answers with 200.",
  "  path: /",
];

const siteLines = (app: string, build: boolean): string[] => [
  "app:",
  `  name: ${quoted(app)}`,
  "  type: static",
  ...(build
    ? ["build:", "  command: npm run build", "  # The directory that the command leaves the site in.", "  output: dist"]
    : []),
];

/** A first manifest for an image that somebody else has built. */
export function imageManifest(facts: DirectoryFacts, name: string | undefined): { text: string; app: string } {
  const app = name ?? tidyName(facts.name) ?? "app";
  const text = [
    "# What svc runs. Check it with `svc manifest validate`.",
    "version: 2",
    `name: ${quoted(app)}`,
    "type: ociimage",
    "# The port that the container listens on.",
    "port: 80",
    "image:",
    "  # A public image with a tag or digest. The digest is pinned when it is deployed.",
    "  reference: nginx:stable-alpine",
    "health:",
    "  path: /",
    "  timeoutSeconds: 60",
  ];
  return { text: `${text.join("\n")}\n`, app };
}

/** The part of a package or directory name that people would say; null when nothing is left of it. */
function tidyName(name: string | null): string | null {
  const tidy = (name ?? "")
    .replace(/^@[^/]*\//, "")
    .replace(/[^\p{L}\p{N} ._-]/gu, "")
    .trim()
    .slice(0, 60)
    .trim();
  return tidy === "" ? null : tidy;
}
