import { join } from "node:path";
import {
  type Channel,
  domainListReply,
  isOciManifest,
  meReply,
  projectDetailReply,
  replyObject,
  success,
} from "@svc/proto";
import { parsePackageJson } from "@svc/proto/frameworks";
import { z } from "zod";
import { configPath, readConfig } from "../config.ts";
import { type Context, userAgent } from "../context.ts";
import { resolveApiUrl } from "../credentials.ts";
import { domainsPath } from "../domains/domain.ts";
import { CliError } from "../errors.ts";
import { parseJson } from "../json.ts";
import { goneTrouble, troubleError } from "../link-trouble.ts";
import { findManifest, getManifest } from "../manifest-file.ts";
import { readStart } from "../project-facts.ts";
import { findReference, resolveTarget } from "../target.ts";
import type { Asked } from "./check.ts";
import type { Facts } from "./judge.ts";

const answerMs = 10_000;
const healthBytesMax = 4096;

const healthReply = z.looseObject({ ok: z.literal(true) });
const branchReply = success({ enabled: z.boolean(), engine: z.string().nullable(), status: z.string().nullable() });
const planReply = success({ plan: replyObject({ devSyncEnabled: z.boolean() }) });

/** Asks for everything that the checks look at. Nothing is changed, here or there. */
export async function ask(context: Context, channel: Channel, named: string | undefined): Promise<Facts> {
  const platform = await askPlatform(context);
  const [caller, [manifest, packages], project, devSync] = await Promise.all([
    askCaller(context),
    askManifest(context).then(async (manifest) => [manifest, await findPackages(context, manifest)] as const),
    askProject(context, named),
    asked(async () => (await (await context.api()).get("/account/usage", planReply)).plan.devSyncEnabled),
  ]);
  const known = project !== null && "found" in project ? project.found.project.id : null;
  const [branch, domains] =
    known === null ? [null, null] : await Promise.all([askBranch(context, known, channel), askDomains(context, known)]);
  return { channel, platform, caller, manifest, packages, project, devSync, branch, domains };
}

/** The platform answers on an address that needs no key, so that a wrong key and a wrong address look different. */
function askPlatform(context: Context): Promise<Facts["platform"]> {
  return asked(async () => {
    const { env, home, signal } = context;
    const config = await readConfig(configPath(env, home)).catch(() => null);
    const apiUrl = resolveApiUrl(env, config);
    const startedAtMs = context.clock.steadyMs();
    const { status, body } = await (await context.http()).send({
      method: "GET",
      url: `${apiUrl}/healthz`,
      headers: { "user-agent": userAgent },
      timeoutMs: answerMs,
      maxBytes: healthBytesMax,
      signal,
    });
    if (status !== 200 || !healthReply.safeParse(parseJson(body)).success)
      throw new CliError(
        "CLOUD_UNAVAILABLE",
        `What answers at ${apiUrl} is not svc, or it is not well (HTTP ${status})`,
        {
          hint: "Go to the right address with `svc login --api-url <url>`",
        },
      );
    return { apiUrl, answeredInMs: Math.round(context.clock.steadyMs() - startedAtMs) };
  });
}

function askCaller(context: Context): Promise<Facts["caller"]> {
  return asked(async () => {
    const { source } = await context.credentials();
    return { reply: await (await context.api()).get("/me", meReply), source };
  });
}

/** None at the usual place is one answer; none at a path that somebody wrote is a failure. */
function askManifest(context: Context): Promise<Facts["manifest"]> {
  return asked(async () => {
    const place = await context.manifestPlace();
    return context.globals.manifestNamed ? getManifest(place) : findManifest(place);
  });
}

/** Names in the package.json of the app that a manifest describes, as they are on this machine; none where there is no such file. */
async function findPackages(context: Context, manifest: Facts["manifest"]): Promise<string[]> {
  if (manifest === null || "error" in manifest || isOciManifest(manifest.found)) return [];
  const { directory } = await context.manifestPlace();
  const text = await readStart(join(directory, manifest.found.source.rootDirectory, "package.json"));
  return [...(parsePackageJson(text ?? "")?.dependencies ?? [])];
}

function askProject(context: Context, named: string | undefined): Promise<Facts["project"]> {
  return asked(async () => {
    // An invalid manifest is the manifest's own finding; a project may still be named otherwise.
    const reference = await findReference(context, named).catch((thrown: unknown) => {
      if (thrown instanceof CliError && thrown.code === "MANIFEST_INVALID") return null;
      throw thrown;
    });
    if (reference === null) return null;
    const { id } = await resolveTarget(context, named);
    const api = await context.api();
    return api.get(`/projects/${id}`, projectDetailReply).catch((thrown: unknown) => {
      throw named === undefined && "id" in reference ? troubleError(goneTrouble(reference, thrown)) : thrown;
    });
  });
}

function askBranch(context: Context, projectId: string, channel: Channel): Promise<Facts["branch"]> {
  return asked(async () => {
    const api = await context.api();
    const { enabled, engine, status } = await api.get(
      `/projects/${projectId}/database?channel=${channel}`,
      branchReply,
    );
    return { enabled, engine: engine ?? "database", status };
  });
}

function askDomains(context: Context, projectId: string): Promise<Facts["domains"]> {
  return asked(async () => (await (await context.api()).get(domainsPath(projectId), domainListReply)).domains);
}

/** What `question` gives; a failure is an answer too, but for what was interrupted or nobody foresaw. */
async function asked<T>(question: () => Promise<T | null>): Promise<Asked<T>> {
  try {
    const found = await question();
    return found === null ? null : { found };
  } catch (thrown) {
    if (thrown instanceof CliError) return { error: thrown };
    throw thrown;
  }
}
