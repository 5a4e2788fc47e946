import { z } from "zod";
import { parseImageReference } from "./image.ts";
import { channels } from "./lifecycle.ts";
import { limits } from "./limits.ts";
import { autoSlug, projectNameProblem, slugFormProblem } from "./names.ts";
import { pathProblem, rootProvenance, tidyPath, urlPathProblem } from "./paths.ts";
import { deadScheduleProblem, scheduleProblem, timeZoneProblem } from "./schedule.ts";
import { isOneLine, isPlainText } from "./text.ts";

/**
 * The manifest (`svc.yml`, version 2) in its normalised form: every default written out, every path tidied,
 * provenance included. The CLI makes it from YAML; the server checks it again from JSON with the same
 * schemas. Parsing a normalised manifest gives it back unchanged. Keys that are absent mean "not set".
 */

/** Adds the sentence that `problemOf` returns, unless it is null. */
export const checked =
  <T>(problemOf: (value: T) => string | null) =>
  (context: z.core.ParsePayload<T>): void => {
    const message = problemOf(context.value);
    if (message !== null) context.issues.push({ code: "custom", message, input: context.value });
  };

const command = z
  .string()
  .max(limits.commandLengthMax)
  .refine(isPlainText, "contains control characters")
  .refine((text) => text.trim() !== "", "is empty");
const port = z.int().min(limits.portMin).max(limits.portMax);
const path = z.string().max(limits.pathLengthMax).check(checked(pathProblem)).transform(tidyPath);
const name = z.string().check(checked(projectNameProblem)).refine(isOneLine, "contains control characters");
// It names a project that may be there already; only a new project's slug is held to what is reserved.
const slug = z.string().check(checked((text) => (text === autoSlug ? null : slugFormProblem(text))));
const channel = z.enum(channels);

const health = z.strictObject({
  path: z.string().max(limits.urlPathLengthMax).check(checked(urlPathProblem)).default("/"),
  timeoutSeconds: z.int().min(1).max(limits.healthTimeoutSecondsMax).default(limits.healthTimeoutSecondsDefault),
});

/**
 * How long a container that is replaced serves what is open. Not written out when it is not said: a server of before
 * there was such a key refuses what it does not know.
 */
const drain = z.strictObject({ seconds: z.int().min(0).max(limits.appDrainSecondsMax) });

const job = z.strictObject({
  name: z
    .string()
    .max(limits.jobNameLengthMax)
    .regex(
      /^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$/,
      "has characters other than lower-case letters, digits, hyphens and underscores",
    ),
  schedule: z.string().check(checked(scheduleProblem)),
  timezone: z.string().check(checked(timeZoneProblem)).default("UTC"),
  command,
  timeoutSeconds: z.int().min(1).max(limits.jobTimeoutSecondsMax).default(limits.jobTimeoutSecondsDefault),
  retries: z.int().min(0).max(limits.jobRetriesMax).default(0),
  overlap: z.enum(["skip", "queue"]).default("skip"),
  enabled: z.boolean().default(true),
});

const app = z.strictObject({
  name,
  type: z.enum(["static", "ssr"], {
    error: ({ input }) =>
      input === "ociimage" ? "an image manifest is flat: write name, type, port and image at the top" : undefined,
  }),
  port: port.default(limits.appPortDefault),
  replicas: z.int().min(1).max(limits.replicasMax).default(1),
  spa: z.boolean().default(false),
});

const provenance = z.strictObject({
  rootDirectory: path.exactOptional(),
  manifestPath: path.exactOptional(),
  watchPaths: z.array(path).max(limits.watchPathsMax).exactOptional(),
});

const sourceShape = z.strictObject({
  version: z.literal(2),
  slug: slug.exactOptional(),
  channel: channel.exactOptional(),
  app,
  source: provenance.prefault({}),
  build: z
    .strictObject({
      command: command.exactOptional(),
      output: path.exactOptional(),
      dockerfile: path.exactOptional(),
      // The site is meant as it is, whatever `siteDoubts` says of it.
      allowUnusual: z.boolean().exactOptional(),
    })
    .prefault({}),
  start: z.strictObject({ command: command.exactOptional() }).prefault({}),
  release: z
    .strictObject({
      command,
      timeoutSeconds: z.int().min(1).max(limits.releaseTimeoutSecondsMax).default(limits.releaseTimeoutSecondsDefault),
    })
    .exactOptional(),
  health: health.prefault({}),
  drain: drain.exactOptional(),
  env: z.strictObject({ files: z.array(path).max(limits.envFilesMax).default([]) }).prefault({}),
  database: z
    .strictObject({ enabled: z.boolean().default(false), engine: z.enum(["postgres", "mariadb"]).default("postgres") })
    .prefault({}),
  jobs: z.array(job).max(limits.jobsMax).default([]),
  dev: z.strictObject({ command: command.exactOptional(), port: port.exactOptional() }).prefault({}),
});

type SourceShape = z.output<typeof sourceShape>;
interface Problem {
  path: (string | number)[];
  message: string;
}

/** What a `static` or `ssr` manifest may not say although each key is well formed. */
function sourceProblems(manifest: SourceShape): Problem[] {
  const problems: Problem[] = [];
  const unless = (ok: boolean, message: string, ...at: (string | number)[]): void => {
    if (!ok) problems.push({ path: at, message });
  };
  if (manifest.app.type === "static") {
    unless(!manifest.database.enabled, "is not available to static projects", "database", "enabled");
    unless(manifest.jobs.length === 0, "is not available to static projects", "jobs");
    unless(manifest.release === undefined, "is not available to static projects", "release");
    unless(manifest.start.command === undefined, "is not available to static projects", "start", "command");
    unless(manifest.build.dockerfile === undefined, "is not available to static projects", "build", "dockerfile");
    unless(manifest.drain === undefined, "is not available to static projects", "drain");
    unless(manifest.app.replicas === 1, "is not available to static projects", "app", "replicas");
    unless(manifest.channel !== "dev", "static projects have no dev channel", "channel");
  } else {
    unless(manifest.build.output === undefined, "is only for static projects", "build", "output");
    unless(!manifest.app.spa, "is only for static projects", "app", "spa");
    unless(manifest.build.allowUnusual === undefined, "is only for static projects", "build", "allowUnusual");
    const { dockerfile } = manifest.build;
    unless(
      dockerfile === undefined || manifest.build.command === undefined,
      "cannot stand beside build.dockerfile, which builds by itself",
      "build",
      "command",
    );
  }
  const names = manifest.jobs.map((each) => each.name);
  for (const [at, each] of names.entries())
    unless(names.indexOf(each) === at, `"${each}" is the name of another job`, "jobs", at, "name");
  const root = rootProvenance(manifest.source);
  if ("problem" in root) problems.push({ path: ["source", "rootDirectory"], message: root.problem });
  return problems;
}

/** A manifest of a `static` or `ssr` project, as it may have been accepted once. */
const sourceForm = sourceShape
  .check((context) => {
    for (const { path: at, message } of sourceProblems(context.value))
      context.issues.push({ code: "custom", path: at, message, input: context.value });
  })
  .transform((manifest) => {
    const { slug: written, source, build, ...rest } = manifest;
    const root = rootProvenance(source);
    return {
      ...rest,
      ...(written === undefined || written === autoSlug ? {} : { slug: written }),
      source: "problem" in root ? { rootDirectory: ".", manifestPath: ".", watchPaths: [] } : root,
      // Without a command the files as they are packed are the site. Where a command leaves it is not written out: what
      // the project tells goes before a default, and not before what somebody wrote.
      build:
        manifest.app.type === "static" && build.command === undefined && build.output === undefined
          ? { ...build, output: "." }
          : build,
    };
  });

/** A manifest of a `static` or `ssr` project. */
export const sourceManifestSchema = sourceForm.check(({ value, issues }) => {
  for (const [at, { schedule }] of value.jobs.entries()) {
    const message = deadScheduleProblem(schedule);
    if (message !== null) issues.push({ code: "custom", path: ["jobs", at, "schedule"], message, input: schedule });
  }
});

export type SourceManifest = z.output<typeof sourceManifestSchema>;

/** Marks an issue that the API reports as OCI_REFERENCE_INVALID rather than VALIDATION. */
export const referenceIssue = { code: "OCI_REFERENCE_INVALID" } as const;

/** An image reference; the output is its canonical form. */
export const imageReference = z.string().transform((text, context) => {
  const reference = parseImageReference(text);
  if (!("problem" in reference)) return reference.canonical;
  const params = { ...referenceIssue, ...(reference.registry !== undefined && { registry: reference.registry }) };
  context.issues.push({ code: "custom", message: reference.problem, input: text, params });
  return z.NEVER;
});

/** A manifest of an `ociimage` project. */
export const ociManifestSchema = z.strictObject({
  version: z.literal(2),
  name,
  type: z.literal("ociimage"),
  port,
  image: z.strictObject({ reference: imageReference }),
  health: health.prefault({}),
  drain: drain.exactOptional(),
  channel: z.enum(["production", "preview"], "image projects have the channels production and preview").exactOptional(),
});

export type OciManifest = z.output<typeof ociManifestSchema>;
export type Manifest = SourceManifest | OciManifest;

const isOciForm = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "type" in value && value.type === "ociimage";

/** The schema that fits what `value` says it is: a flat `type: ociimage`, or the nested form. */
export const schemaFor = (value: unknown): typeof sourceManifestSchema | typeof ociManifestSchema =>
  isOciForm(value) ? ociManifestSchema : sourceManifestSchema;

/** A manifest of any project, as it may have been accepted once. Issues are those of the form that the value claims to have. */
export const manifestSchema = z.unknown().transform((value, context): Manifest => {
  const result = (isOciForm(value) ? ociManifestSchema : sourceForm).safeParse(value);
  if (result.success) return result.data;
  context.issues.push(...result.error.issues.map((issue) => ({ ...issue, input: value }) as z.core.$ZodRawIssue));
  return z.NEVER;
});

/**
 * A manifest that was accepted and stored, maybe by a later version: two may run at once. Keys that this one does not know
 * are left out.
 */
export const storedManifestSchema = z.preprocess(withoutUnknownKeys, manifestSchema);

function withoutUnknownKeys(value: unknown): unknown {
  const unknown = schemaFor(value)
    .safeParse(value)
    .error?.issues.filter((issue) => issue.code === "unrecognized_keys");
  if (unknown === undefined || unknown.length === 0) return value;
  const known = structuredClone(value);
  for (const { path: at, keys } of unknown) {
    const holder = at.reduce<unknown>((held, key) => (held as Record<PropertyKey, unknown>)[key], known);
    for (const key of keys) delete (holder as Record<string, unknown>)[key];
  }
  return known;
}

export const isOciManifest = (manifest: Manifest): manifest is OciManifest => "image" in manifest;

/** The project type that a manifest is for. */
export const manifestType = (manifest: Manifest): "static" | "ssr" | "ociimage" =>
  isOciManifest(manifest) ? manifest.type : manifest.app.type;

/** The name that a manifest gives its project. */
export const manifestName = (manifest: Manifest): string =>
  isOciManifest(manifest) ? manifest.name : manifest.app.name;

/** The port that the app listens on. */
export const manifestPort = (manifest: Manifest): number =>
  isOciManifest(manifest) ? manifest.port : manifest.app.port;

/** For how many seconds a container that is replaced serves what is open. */
export const drainSecondsOf = (manifest: Manifest): number => manifest.drain?.seconds ?? limits.appDrainSecondsDefault;

/** Where the source came from; null for image projects. */
export const sourceOf = (manifest: Manifest): SourceManifest["source"] | null =>
  isOciManifest(manifest) ? null : manifest.source;

/** Where the files of `env.files` lie in the source archive, in their order: a later one's variables win. */
export const envFilePaths = ({ source, env }: SourceManifest): string[] =>
  env.files.map((file) => tidyPath(`${source.rootDirectory}/${file}`));

/** Whether there is a release command, and its time limit (null without one). */
export interface ReleaseConfig {
  configured: boolean;
  timeoutSeconds: number | null;
}

export function releaseOf(manifest: Manifest): ReleaseConfig {
  const release = isOciManifest(manifest) ? undefined : manifest.release;
  return { configured: release !== undefined, timeoutSeconds: release?.timeoutSeconds ?? null };
}

/**
 * What anybody who may see a deployment may see of its manifest: no command (build, start, release, jobs,
 * dev) and no env-file configuration. Built by naming what stays, so a new key is hidden until it is named.
 */
export function manifestSnapshot(manifest: Manifest): Record<string, unknown> {
  const { version, health, drain: drains, channel: forced } = manifest;
  const base = {
    ...{ version, health },
    ...(drains === undefined ? {} : { drain: drains }),
    ...(forced === undefined ? {} : { channel: forced }),
  };
  if (isOciManifest(manifest)) {
    const { name: appName, type, port: appPort, image } = manifest;
    return { ...base, name: appName, type, port: appPort, image };
  }
  return {
    ...base,
    ...(manifest.slug === undefined ? {} : { slug: manifest.slug }),
    app: manifest.app,
    source: manifest.source,
    database: manifest.database,
    release: releaseOf(manifest),
    jobs: manifest.jobs.map(({ name: jobName, schedule, timezone, timeoutSeconds, retries, overlap, enabled }) => ({
      ...{ name: jobName, schedule, timezone, timeoutSeconds, retries, overlap, enabled },
    })),
  };
}
