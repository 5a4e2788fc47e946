import { lstat } from "node:fs/promises";
import { basename, join } from "node:path";
import { parseManifest, pathProblem, plural, tidyPath } from "@svc/proto";
import {
  type DetectedApp,
  type Detection,
  detect,
  type Facts,
  isWorkspaceRoot,
  packageName,
  typeName,
  type Wish,
} from "@svc/proto/frameworks";
import { createDurably, isFileError } from "@svc/runtime/durable-file";
import { command, flag } from "../command.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { replaceFile } from "../files.ts";
import { imageManifest, plainManifest } from "../init.ts";
import { type ManifestPlace, pathFrom } from "../manifest-file.ts";
import { readFacts, workspaceAbove } from "../project-facts.ts";
import { offerRemake } from "../remake.ts";
import { templateNames, templatesWithFiles } from "../templates/names.ts";

export const init = command({
  name: "init",
  summary: "Write a first manifest for this directory",
  details:
    "Looks at package.json, the settings of frameworks and the Dockerfile, and says what it found and why. Where that leaves a choice it asks, and in a pipeline names the flag that decides. Only the manifest is written, but for a template that is a whole app.",
  flags: {
    name: flag.text("--name <name>", "Name of the app; default: that of the package or the directory"),
    force: flag.toggle("--force", "Replace a manifest that exists, and files of a template"),
    template: flag.choice("--template <name>", "Start from a template instead", templateNames),
    type: flag.choice("--type <type>", "What the app is, whatever the files tell", ["static", "ssr"]),
    root: flag.text("--root <directory>", "Directory of the app, where there are several"),
  },
  examples: ["svc init", "svc init --name Shop", "svc init --root apps/web", "svc init --template realtime-todo"],
  async run(context, { name, force, template, type, root }) {
    if (template !== undefined && (type !== undefined || root !== undefined))
      throw new CliError(
        "CLI_INVALID_USAGE",
        "A template is what it is: --type and --root are for an app that is there",
        {
          hint: `Run \`svc init --template ${template}\` in the directory that it is to be in`,
        },
      );
    const place = await context.manifestPlace();
    const rootDirectory = tidyRoot(root);
    const facts = await readFacts(place.directory, rootDirectory);
    if (facts === null)
      throw new CliError("CLI_INVALID_USAGE", `There is no directory ${place.directory}`, {
        hint: "Make the directory first, or name another place with --manifest <path>",
      });
    if (rootDirectory !== undefined) await requireDirectory(place, rootDirectory);
    if (!force && (await isThere(place.file))) throw existsAlready(place.file, template);
    const directory = basename(place.directory);
    if (template === "ociimage") {
      const { text, app } = imageManifest({ package: null, directory }, name);
      await write(context, place, text, force);
      return { manifest: place.path, app, template, hint: `Set image.reference in ${place.path}, then run svc deploy` };
    }
    const whole = templatesWithFiles.find((each) => each === template);
    if (whole !== undefined) {
      const { prepareTemplate } = await import("../templates/write.ts");
      const { text, app, files, writeFiles } = await prepareTemplate(place.directory, whole, { name, force });
      await writeFiles();
      // The last one: whoever is interrupted before it runs the same command again.
      await write(context, place, text, force);
      const hint = "Run svc deploy. README.md says what is where, and how to run it on this machine";
      return { manifest: place.path, app, template: whole, files, hint };
    }
    const isEmpty = facts.files.size === 0 && type === undefined;
    if (isEmpty)
      context.warn(
        "There is nothing in this directory yet: the manifest is that of a site whose files are published as they are. Run svc init --force once the app is there",
      );
    const wish: Wish = { type: isEmpty ? "static" : type, root: rootDirectory };
    const detected = await decide(context, place, facts, wish);
    const own = detected.rootDirectory === "." ? directory : basename(detected.rootDirectory);
    const names = { package: packageName(facts, detected.rootDirectory), directory: own };
    const { text, app } = plainManifest(detected, names, name);
    await write(context, place, text, force);
    return { manifest: place.path, app, detected };
  },
  render: (payload, { paint }) => {
    const others = "files" in payload ? ` and ${plural(payload.files.length, "file")}` : "";
    const wrote = `${paint("green", "✓")} Wrote ${payload.manifest}${others} for ${payload.app}`;
    if ("hint" in payload) return `${wrote}\n  Next: ${payload.hint}`;
    return [wrote, ...found(payload.detected), "  Next: look it over, then run svc deploy"].join("\n");
  },
});

/** What was found, and by what it was decided. */
function found(app: DetectedApp): string[] {
  const { type, rootDirectory, dockerfile, build, output, start, port, needs, why } = app;
  return [
    `  Found: ${kindOf(app)}${rootDirectory === "." ? "" : `, in ${rootDirectory}`}`,
    ...why.map((each) => `  - ${each}`),
    ...(dockerfile === null ? [] : [`  Build: ${dockerfile}`]),
    ...(build === null ? [] : [`  Build: ${build}`]),
    ...(type === "static" ? [`  Site: ${output === null ? "where the build leaves it" : output}`] : []),
    ...(start === null ? [] : [`  Start: ${start}`]),
    ...(port === null ? [] : [`  Port: ${port}`]),
    ...(needs.length === 0
      ? []
      : [
          `  It does not start without ${needs.join(", ")}: write them into .env, and run svc env push after the first deploy`,
        ]),
  ];
}

const kindOf = ({ framework, type }: DetectedApp): string =>
  [framework, typeName(type)].filter((each) => each !== null).join(", ");

/** The app that is there, or of several the one that a person chooses. */
async function decide({ terminal }: Context, place: ManifestPlace, facts: Facts, wish: Wish): Promise<DetectedApp> {
  const detection = detect(facts, wish);
  if (!namesFramework(detection)) await requireTop(place, detection, facts, wish);
  if (detection.is === "refused") throw new CliError("CLI_INVALID_USAGE", detection.problem, { hint: detection.cure });
  if (detection.is === "app") return placed(detection.app, place);
  const { question, choices } = detection;
  if (terminal.interactive) {
    const chosen = await terminal.choose(
      question,
      choices.map(({ label }) => label),
    );
    const choice = choices.find(({ label }) => label === chosen);
    if (choice === undefined)
      throw new CliError("CLI_INVALID_USAGE", "Nothing was chosen, and nothing was written", {
        hint: "Run the command again, or say it with a flag: `svc init --help`",
      });
    return placed(choice.app, place);
  }
  const lines = choices.map(({ label, flags }) => `  ${label}: svc init ${flags}`);
  throw new CliError("CLI_INVALID_USAGE", [`${question}: say which`, ...lines].join("\n"), {
    hint: `Run \`svc init ${choices[0]?.flags ?? ""}\`, or with the flag of another one`,
  });
}

const namesFramework = (found: Detection): boolean =>
  (found.is === "app" ? [found] : found.is === "unclear" ? found.choices : []).some(
    ({ app }) => app.framework !== null,
  );

/**
 * Ends the command where the workspace around the directory tells more of the app than its directory, in which it would
 * be taken for a page. `own` is what the directory tells.
 */
async function requireTop(
  place: ManifestPlace,
  own: Detection,
  facts: Facts,
  { type, root = "." }: Wish,
): Promise<void> {
  const workspace =
    root === "." && isWorkspaceRoot(facts) ? null : await workspaceAbove(place.directory, place.repository);
  if (workspace === null) return;
  // A manifest chooses a directory only from the top of its repository.
  const top = place.repository ?? workspace;
  const from = pathFrom(top, join(place.directory, root));
  const all = await readFacts(top, from);
  if (all === null) return;
  const found = detect(all, { type, root: from });
  if (found.is === "refused") {
    if (own.is === "app") throw new CliError("CLI_INVALID_USAGE", found.problem, { hint: found.cure });
    return;
  }
  if (!namesFramework(found) && own.is !== "refused") return;
  const known = found.is === "app" ? `: ${kindOf(found.app)}` : "";
  throw new CliError("CLI_INVALID_USAGE", `${from} belongs to a workspace, and is known only from the top${known}`, {
    hint: `Run \`svc init --root ${from}${type === undefined ? "" : ` --type ${type}`}\` in ${top}`,
  });
}

/** Holds an app against what its manifest may say where it would lie. */
function placed(app: DetectedApp, { home }: ManifestPlace): DetectedApp {
  if (app.rootDirectory === "." || home === ".") return app;
  throw new CliError(
    "CLI_INVALID_USAGE",
    `The app is in ${home}/${app.rootDirectory}, and a manifest in ${home} cannot choose another directory`,
    { hint: `Run \`svc init --root ${home}/${app.rootDirectory}\` at the top of the repository` },
  );
}

function tidyRoot(root: string | undefined): string | undefined {
  if (root === undefined) return undefined;
  const problem = pathProblem(root);
  if (problem === null) return tidyPath(root);
  throw new CliError("CLI_INVALID_USAGE", `--root: ${problem}`, {
    hint: "Give one below this: `svc init --root apps/web`",
  });
}

async function requireDirectory({ directory }: ManifestPlace, root: string): Promise<void> {
  const found = await lstat(join(directory, root)).catch((thrown: unknown) => {
    if (isFileError(thrown, "ENOENT", "ENOTDIR")) return null;
    throw thrown;
  });
  if (found?.isDirectory() === true) return;
  // A link is packed as a link, and nothing is in it then.
  const wrong =
    found === null ? "does not exist" : found.isSymbolicLink() ? "is a symbolic link" : "is not a directory";
  throw new CliError("CLI_INVALID_USAGE", `--root: ${root} ${wrong}`, {
    hint: `Give the path of the app's directory from ${directory}`,
  });
}

async function write(context: Context, place: ManifestPlace, text: string, force: boolean): Promise<void> {
  const parsed = parseManifest(text, { path: place.path });
  // Only what the person typed can be wrong with it.
  if ("problems" in parsed)
    throw new CliError("CLI_INVALID_USAGE", `--name: ${parsed.problems.map(({ message }) => message).join("; ")}`, {
      hint: "Give another one: `svc init --name Shop`",
    });
  if (force) {
    await replaceFile(place.file, text, { mode: 0o644, refusal: "CLI_INVALID_USAGE" });
    context.onInterrupt(
      `${place.path} is written. Whether the project that it is linked to takes it, \`svc deploy\` says`,
    );
    return offerRemake(context, place, parsed.manifest);
  }
  try {
    await createDurably(place.file, text, { mode: 0o644 });
  } catch (thrown) {
    if (!isFileError(thrown, "EEXIST")) throw thrown;
    throw existsAlready(place.file);
  }
}

const existsAlready = (file: string, template?: string): CliError =>
  new CliError("MANIFEST_INVALID", `${file} exists already`, {
    hint: `Replace it with \`svc init ${template === undefined ? "" : `--template ${template} `}--force\``,
  });

const isThere = (file: string): Promise<boolean> =>
  lstat(file).then(
    () => true,
    () => false,
  );
