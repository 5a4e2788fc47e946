import { open } from "node:fs/promises";
import { join } from "node:path";
import { parseSiteRules, type RuleFile, ruleFiles, ruleLimits, type SiteRules } from "@svc/proto/site-rules";
import { isFileError } from "@svc/runtime/durable-file";

/** Rules of the bundles on this edge, of those that were asked for lately in memory. */
export interface KeptRules {
  /** What is wrong in the files of a bundle has no effect: its owner was told when it was built. */
  of(bundle: string): Promise<SiteRules>;
}

/** Each may take some megabytes. */
const keptMax = 32;

/** @param bundlesDir of the unpacked bundles, which never change */
export function openKeptRules(bundlesDir: string): KeptRules {
  /** The one that was asked for last comes last. */
  const kept = new Map<string, Promise<SiteRules>>();
  return {
    of(bundle) {
      const rules = kept.get(bundle) ?? read(join(bundlesDir, bundle));
      kept.delete(bundle);
      kept.set(bundle, rules);
      rules.catch(() => kept.delete(bundle));
      for (const oldest of kept.keys()) {
        if (kept.size <= keptMax) break;
        kept.delete(oldest);
      }
      return rules;
    },
  };
}

async function read(bundle: string): Promise<SiteRules> {
  const texts: Partial<Record<RuleFile, string>> = {};
  for (const name of ruleFiles) texts[name] = await readText(join(bundle, name));
  return parseSiteRules(texts).rules;
}

/** A byte more than the bound, when there are more; "" without the file. */
async function readText(path: string): Promise<string> {
  try {
    await using file = await open(path, "r");
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(ruleLimits.fileBytesMax + 1) });
    return buffer.subarray(0, bytesRead).toString("utf8");
  } catch (cause) {
    if (isFileError(cause, "ENOENT", "EISDIR")) return "";
    throw cause;
  }
}
