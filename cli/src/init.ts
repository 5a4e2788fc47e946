import type { DetectedApp } from "@svc/proto/frameworks";
import { stringify } from "yaml";

/** Where names of an app come from when nobody gave one, the best first. */
export interface Names {
  package: string | null;
  directory: string;
}

/** A first manifest as YAML with comments, and the name of its app. */
export interface FirstManifest {
  text: string;
  app: string;
}

/** A first manifest for an app that was found. `name` is what the person asked for, if anything. */
export function plainManifest(app: DetectedApp, names: Names, name: string | undefined): FirstManifest {
  const called = name ?? tidyName(names.package) ?? tidyName(names.directory) ?? "app";
  const lines = [
    "# What svc deploys from this directory. Check it with `svc manifest validate`.",
    "version: 2",
    "app:",
    `  name: ${quoted(called)}`,
    `  type: ${app.type}`,
    ...(app.port === null
      ? []
      : ["  # The app listens on all addresses at this port, which it also finds in PORT.", `  port: ${app.port}`]),
    ...(app.spa ? ["  # The browser decides which page a path is: every path is the one page.", "  spa: true"] : []),
    ...(app.rootDirectory === "."
      ? []
      : [
          "source:",
          "  # The app's directory; the whole tree is sent.",
          `  rootDirectory: ${quoted(app.rootDirectory)}`,
        ]),
    ...buildLines(app),
    // A manifest that names the command asks for the whole tree.
    ...(app.start === null || app.standalone ? [] : ["start:", `  command: ${quoted(app.start)}`]),
    ...(app.type === "static" ? [] : ["health:", "  # Traffic arrives once this path answers with 200.", "  path: /"]),
  ];
  return { text: `${lines.join("\n")}\n`, app: called };
}

function buildLines({ dockerfile, build, output }: DetectedApp): string[] {
  if (dockerfile !== null) return ["build:", `  dockerfile: ${quoted(dockerfile)}`];
  if (build === null) return output === null || output === "." ? [] : ["build:", `  output: ${quoted(output)}`];
  const where = "  # The directory that the command leaves the site in.";
  return ["build:", `  command: ${quoted(build)}`, ...(output === null ? [] : [where, `  output: ${quoted(output)}`])];
}

const quoted = (text: string): string => stringify(text, { lineWidth: 0 }).trimEnd();

/** A first manifest for an image that somebody else has built. */
export function imageManifest(names: Names, name: string | undefined): FirstManifest {
  const app = name ?? tidyName(names.directory) ?? "app";
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

/** The manifest of a template that is a whole app: its own, for an app of that name if somebody asked for one. */
export function templateManifest(text: string, name: string | undefined): FirstManifest {
  const line = /^ {2}name: (.*)$/m;
  const app = name ?? line.exec(text)?.[1] ?? "app";
  return { text: name === undefined ? text : text.replace(line, () => `  name: ${quoted(name)}`), app };
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
