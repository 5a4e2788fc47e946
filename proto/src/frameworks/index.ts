/**
 * Frameworks: what is known of each (`table.ts`), and what that means for one project. Pure; the command line and the
 * builder read a project's facts in their own way and get the same answers.
 */
export { buildsItself, defaultOutput, type SiteBuild, serverBuild, siteBuild } from "./build.ts";
export {
  type AppType,
  type Choice,
  type DetectedApp,
  type Detection,
  detect,
  typeName,
  type Wish,
} from "./detect.ts";
export type { Facts } from "./facts.ts";
export type { Framework } from "./form.ts";
export { codeOf } from "./framework.ts";
export { type PackageJson, parseObject, parsePackageJson } from "./package-json.ts";
export {
  detectPackageManager,
  hasProgramFolder,
  lockFiles,
  type PackageManager,
  type Pinned,
  pinnedManager,
  scriptCommand,
} from "./package-manager.ts";
export {
  isSource,
  type Project,
  parents,
  readProject,
  tellingBytesMax,
  tellingFiles,
  tellingOfBuild,
} from "./project.ts";
export { type ServerStart, serverStart, tracesApp } from "./start.ts";
export { isWorkspaceRoot, packageName } from "./workspace.ts";
