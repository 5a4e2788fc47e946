import { parseSiteRules, type RuleFile, ruleDoubts, ruleFiles, ruleLimits } from "@svc/proto/site-rules";
import type { Archive } from "./archive.ts";
import type { SiteFile } from "./site.ts";

/** What in the rules of a site has no effect, one sentence each with file and line. */
export async function siteRuleDoubts(
  { files, read }: Pick<Archive, "files" | "read">,
  site: readonly SiteFile[],
): Promise<string[]> {
  const texts: Partial<Record<RuleFile, string>> = {};
  for (const name of ruleFiles) {
    const source = site.find(({ path }) => path === name)?.source;
    const file = source === undefined ? undefined : files.get(source);
    if (file === undefined) continue;
    // One byte more than the bound tells that it is too large.
    const sizeBytes = Math.min(file.sizeBytes, ruleLimits.fileBytesMax + 1);
    texts[name] = (await read({ ...file, sizeBytes })).toString("utf8");
  }
  return ruleDoubts(parseSiteRules(texts).problems);
}
