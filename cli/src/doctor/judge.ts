import {
  type Channel,
  type CustomDomain,
  isOciManifest,
  type Manifest,
  type MeReply,
  type ProjectDetailReply,
  plural,
} from "@svc/proto";
import { areEventsSplit, splitEvents } from "@svc/proto/realtime";
import { reasonsOf } from "../domains/domain.ts";
import { type Asked, type Check, checkNames, type Finding, failed, failedBy, ok, skipped, warning } from "./check.ts";

/** A database branch, as far as it matters here. */
export interface Branch {
  enabled: boolean;
  engine: string;
  status: string | null;
}

/** Everything that was asked before anything is judged. */
export interface Facts {
  channel: Channel;
  /** Who the key belongs to and where it came from. */
  caller: Asked<{ reply: MeReply; source: "env" | "config" }>;
  /** The platform's own word that it is there, and how long that took. */
  platform: Asked<{ apiUrl: string; answeredInMs: number }>;
  /** Null: there is no file. */
  manifest: Asked<Manifest>;
  /** Null: nothing says which project is meant. */
  project: Asked<ProjectDetailReply>;
  /** Whether the plan has the dev channel. */
  devSync: Asked<boolean>;
  branch: Asked<Branch>;
  /** Packages that the app's package.json names. */
  packages: readonly string[];
  domains: Asked<CustomDomain[]>;
}

/** One check for each name, in their order. */
export function judge(facts: Facts): Check[] {
  const findings: Record<(typeof checkNames)[number], Finding> = {
    auth: judgeAuth(facts),
    api: judgeApi(facts),
    manifest: judgeManifest(facts),
    project: judgeProject(facts),
    "dev-channel": judgeDevChannel(facts),
    database: judgeDatabase(facts),
  };
  return checkNames.map((name) => ({ name, ...findings[name] }));
}

function judgeAuth({ caller }: Facts): Finding {
  if (caller === null) return skipped("The platform does not answer");
  if ("error" in caller) {
    const { error } = caller;
    // Such a key is refused here, and only here is that no fault.
    if (error.code === "CLOUD_FORBIDDEN_SCOPE") return ok("A key that only deploys from CI");
    return error.code === "CLOUD_UNAVAILABLE" ? skipped("The platform does not answer") : failedBy(error);
  }
  const { reply, source } = caller.found;
  const from = source === "env" ? "SVC_TOKEN" : "the stored login";
  const access = reply.scopes === null ? "full access" : reply.scopes.join(", ") || "no scopes";
  return ok(`${reply.user.email} by ${from}, ${access}`);
}

function judgeApi({ platform }: Facts): Finding {
  if (platform === null) return skipped("It is not known where the platform is");
  if ("error" in platform) return failedBy(platform.error);
  const { apiUrl, answeredInMs } = platform.found;
  return ok(`${apiUrl} answers, in ${answeredInMs} ms`);
}

function judgeManifest({ manifest }: Facts): Finding {
  if (manifest === null) return warning("There is no manifest here", "Create one with `svc init`");
  if ("error" in manifest) return failedBy(manifest.error);
  return ok(`Valid, type ${typeOf(manifest.found)}`);
}

/** With its domains: of what needs somebody the worst is told. */
function judgeProject({ project, domains }: Facts): Finding {
  if (project === null) return warning("This directory has no project yet", "Create one with `svc deploy`");
  if ("error" in project) return unavailable(project.error) ?? failedBy(project.error);
  const { project: facts, deployments } = project.found;
  if (facts.suspendedAt !== null)
    return failed(
      `${facts.slug} is suspended (${facts.suspendReason ?? "admin"})`,
      "Ask the administrator of this installation to resume it",
    );
  const ofDomains = judgeDomains(domains);
  if (ofDomains.status === "failed") return ofDomains;
  const production = deployments.filter(({ channel }) => channel === "production");
  const live = production.find(({ status }) => status === "running" || status === "stopped");
  const newest = production[0];
  if (newest?.status === "failed")
    return warning(
      `The latest production deployment of ${facts.slug} failed${live === undefined ? "" : "; an earlier one serves"}`,
      "See why with `svc logs`",
    );
  if (ofDomains.status === "warning") return ofDomains;
  const verified = ofDomains.status === "ok" ? `, ${ofDomains.detail}` : "";
  return ok(`${facts.slug}, production ${live?.status ?? "never deployed"}${verified}`);
}

function judgeDevChannel({ project, devSync, manifest }: Facts): Finding {
  const type = found(project)?.project.type ?? typeOfAsked(manifest);
  if (type === "static" || type === "ociimage") return skipped(`Projects of type ${type} have no dev channel`);
  if (devSync === null) return skipped("Not asked");
  if ("error" in devSync)
    return unavailable(devSync.error) ?? skipped(`The plan cannot be seen: ${devSync.error.message}`);
  return devSync.found
    ? ok("The plan includes it")
    : warning("The plan does not include it", "Ask the administrator of this installation for a plan that does");
}

function judgeDatabase(facts: Facts): Finding {
  const { branch, manifest, project, channel, packages } = facts;
  const asked = found(manifest);
  const hasDatabase = found(branch)?.enabled === true;
  if (asked !== null && areEventsSplit(asked, { packages, hasDatabase }))
    return warning(splitEvents.problem, splitEvents.cure);
  const isWanted = asked !== null && !isOciManifest(asked) && (asked.database?.enabled ?? false);
  if (branch === null) {
    const why = project === null ? "There is no project yet" : "The project could not be read";
    return skipped(isWanted ? `${why}; a deploy creates the database` : why);
  }
  if ("error" in branch) {
    const { error } = branch;
    if (error.code !== "CLOUD_NOT_FOUND") return unavailable(error) ?? failedBy(error);
    return isWanted
      ? failed("This platform offers no managed databases", "Take `database` out of the manifest")
      : skipped("This platform offers no managed databases");
  }
  const { enabled, engine, status } = branch.found;
  if (!enabled)
    return isWanted
      ? failed(`The manifest wants one, and ${channel} has none`, `Create it with \`svc db branch ${channel}\``)
      : skipped(`${channel} has none`);
  if (status === "ready") return ok(`${engine}, ready`);
  return status === "provisioning"
    ? warning(`${engine}, still being created`, "Look again in a moment with `svc doctor`")
    : failed(`${engine}, ${status ?? "in no state"}`, `See it with \`svc db status --channel ${channel}\``);
}

/** Of several that need somebody the worst is told; the list has all of them. */
function judgeDomains(domains: Facts["domains"]): Finding {
  if (domains === null) return skipped("Not asked");
  if ("error" in domains) {
    const { error } = domains;
    return error.code === "CLOUD_NOT_FOUND"
      ? skipped("This platform offers no custom domains")
      : (unavailable(error) ?? failedBy(error));
  }
  if (domains.found.length === 0) return skipped("The project has none");
  const lost = domains.found.find(({ status }) => status === "failed");
  if (lost !== undefined)
    return failed(
      `${lost.domain}: ${lost.reason ?? "not verified"}`,
      `Try it again with \`svc domains verify ${lost.domain}\``,
    );
  const troubled = domains.found.find((each) => each.status === "pending" || reasonsOf(each).length > 0);
  if (troubled !== undefined)
    return warning(
      `${troubled.domain}: ${reasonsOf(troubled)[0] ?? "waits for its TXT record"}`,
      "See the records that it needs with `svc domains ls`",
    );
  return ok(`${plural(domains.found.length, "domain")} verified`);
}

const found = <T>(asked: Asked<T>): T | null => (asked !== null && "found" in asked ? asked.found : null);
const typeOf = (manifest: Manifest) => (isOciManifest(manifest) ? manifest.type : manifest.app.type);
const typeOfAsked = (manifest: Asked<Manifest>) => {
  const known = found(manifest);
  return known === null ? null : typeOf(known);
};

/** What cannot be judged because nobody answers is said once, by the check of the API. */
const unavailable = ({ code }: { code: string }): Finding | null =>
  code === "CLOUD_UNAVAILABLE" || code === "CLOUD_NOT_LOGGED_IN" ? skipped("The platform could not be asked") : null;
