export { decide, type RuleDecision } from "./decide.ts";
export { parseSiteRules, type RuleFile, ruleDoubts, ruleFiles, type SiteRules } from "./rules.ts";
export { ruleLimits } from "./text.ts";
