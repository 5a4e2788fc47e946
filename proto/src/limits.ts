/**
 * Every fixed number that two programs must agree on. What differs per account is a plan's, not here.
 * Names end in the unit; KB and MB of the contract are 1024-based.
 */
export const limits = {
  // Names and texts
  slugLengthMin: 3,
  slugLengthMax: 30,
  // Slugs that a project had and that still lead to it.
  formerSlugsPerProject: 5,
  projectNameLengthMax: 100,
  branchNameLengthMax: 255,
  repoUrlLengthMax: 500,
  repoIdLengthMax: 255,
  tokenNameLengthMax: 64,
  tokenProjectsMax: 25,
  tokensPerUserMax: 100,
  tokenExpirySecondsMin: 86_400,
  tokenExpirySecondsMax: 365 * 86_400,
  accountPasswordLengthMin: 8,
  accountPasswordLengthMax: 128,
  // bcrypt reads 72 bytes; a longer password is refused rather than cut.
  sitePasswordBytesMax: 72,
  sitePasswordCookieSeconds: 7 * 86_400,

  // Deployments
  metadataBytesMax: 4096,
  metadataTextLengthMax: 255,
  triggerLengthMax: 64,
  productionDeploymentsInDetail: 10,
  devDeploymentsInDetail: 3,
  deploymentListDefault: 20,
  deploymentListMax: 100,
  buildSecondsMax: 900,
  pullSecondsMax: 900,
  // The engine is given one token for a whole pull or push, so it lasts as long as the longest of either may take.
  registryTokenSeconds: 900,
  routeSecondsMax: 30,
  // Rollback targets per channel whose artifacts are kept.
  rollbackTargetsKept: 5,
  // What was pushed and is not referred to is deleted no sooner; an upload may take this long.
  artifactGraceSeconds: 3600,
  errorTextBytesMax: 4096,
  deploymentWarningsMax: 20,
  logChunkBytesMax: 256 * 1024,
  logReplyBytesMax: 1024 * 1024,
  buildLogBytesMax: 16 * 1024 * 1024,

  // Source archives
  archiveEntriesMax: 200_000,
  archivePathBytesMax: 1024,
  archiveNameBytesMax: 255,
  archiveDepthMax: 64,
  // Of all paths together, directories that are only implied among them: what a reader has to remember.
  archiveNamesLengthMax: 16 * 1024 * 1024,

  // Manifest
  manifestBytesMax: 64 * 1024,
  manifestAliasesMax: 100,
  commandLengthMax: 4096,
  pathLengthMax: 255,
  urlPathLengthMax: 512,
  portMin: 1,
  portMax: 65_535,
  replicasMax: 10,
  appDrainSecondsDefault: 30,
  appDrainSecondsMax: 3600,
  envFilesMax: 10,
  envFileBytesMax: 64 * 1024,
  watchPathsMax: 20,
  jobsMax: 50,
  jobNameLengthMax: 63,
  jobTimeoutSecondsDefault: 900,
  jobTimeoutSecondsMax: 21_600,
  jobRetriesMax: 10,
  releaseTimeoutSecondsDefault: 300,
  releaseTimeoutSecondsMax: 1800,
  healthTimeoutSecondsDefault: 60,
  healthTimeoutSecondsMax: 600,
  appPortDefault: 3000,

  // Image references
  imageReferenceLengthMax: 512,
  imageNameLengthMax: 255,
  imageTagLengthMax: 128,
  // A base image, as it is transferred and unpacked, and what is kept of those that one account's builds asked for first.
  baseImageMbMax: 4096,
  baseImagesMbPerAccount: 20_480,
  baseImageKeptDays: 30,
  // Images that an account pushes itself.
  accountRepositoriesMax: 20,
  accountTagsMax: 100,
  // Those that are there and no tag names any more among them.
  accountManifestsMax: 4_000,
  accountManifestBytesMax: 256 * 1024,
  accountManifestPartsMax: 256,
  registryLoginSeconds: 43_200,
  registryCredentialsPerProject: 5,
  registryUsernameLengthMax: 255,
  registrySecretLengthMax: 8192,

  // Environment
  envKeyLengthMax: 128,
  envValueBytesMax: 32 * 1024,
  // What a plan may allow at most.
  envVarsPerPlanMax: 1000,
  envTotalBytesMax: 512 * 1024,

  // Lists, logs, metrics
  runtimeLogLinesDefault: 200,
  runtimeLogLinesMax: 2000,
  jobRunsListMax: 100,
  jobLogBytesMax: 1024 * 1024,
  /** Of runs that are over; of each job also the last success and the last failure, and no more than so many in all. */
  jobRunsKeptDays: 90,
  jobRunsKeptMax: 1000,
  jobLogsKeptDays: 30,
  metricsHoursMax: 720,
  analyticsEntriesMax: 25,
  adminSeriesDaysDefault: 30,
  adminSeriesDaysMax: 365,
  // Users or projects in one reply.
  adminListMax: 10_000,
  adminSearchLengthMax: 100,
  auditListDefault: 50,
  auditListMax: 200,
  auditTargetLengthMax: 255,
  // The database refuses to let go of younger lines.
  auditKeptDays: 400,
  savedQueriesPerProject: 20,
  savedQueryNameLengthMax: 100,
  sqlBytesMax: 100 * 1024,
  sqlRowsMax: 500,
  studioRowsDefault: 50,
  studioRowsMax: 200,
  studioStatementMs: 10_000,
  /** Rows of an answer that are counted, the given ones among them. MariaDB stops at one more than are given, unless told a LIMIT. */
  sqlRowsCountedMax: 100_000,
  /** Of an export or import of a table, from its beginning to its last byte. */
  tableTransferMs: 3_600_000,
  /** Of one row of a CSV. */
  importRowLengthMax: 8 * 1024 * 1024,
  /** What both ends of a tunnel to a database speak: the WebSocket protocol, and how long a message may be. */
  databaseTunnel: { protocol: "svc-database", messageBytesMax: 64 * 1024 },
  databaseSamplesShown: 30,
  backupStuckSeconds: 7200,
  scheduledBackupsKeptMax: 90,
  domainVerificationSeconds: 48 * 3600,
  screenshotCooldownSeconds: 600,
  /** What taking a picture may take once its page is asked for. */
  screenshotSeconds: 20,
  screenshotWidth: 1280,
  screenshotHeight: 800,
  screenshotBytesMax: 1_048_576,
  timelineEventsMax: 500,

  // Fleet
  nodeNameLengthMax: 63,
  nodeLabelLengthMax: 253,
  nodeSelectorLabelsMax: 10,
  // Labels of one machine that operators set.
  nodeLabelsMax: 20,
  nodeEventDetailBytesMax: 500,
  nodeReasonLengthMax: 500,
  // Machines that a replacement of the certificate authority waits for, in one reply.
  movingDaemonsShown: 500,
  bootstrapTokenSecondsDefault: 900,
  bootstrapTokenSecondsMax: 86_400,
  // Newest tokens in a list.
  bootstrapTokensListMax: 500,
  nodeAddressesMax: 8,
  drainSecondsMin: 60,
  drainSecondsDefault: 3600,
  drainSecondsMax: 86_400,
  // Newest events per machine: kept of each kind, and shown with it.
  nodeEventsKept: 200,
  nodeEventsShown: 20,
  // Of one machine in one reply.
  nodePlacementsShown: 500,
  nodeBlockersShown: 100,
  cursorLengthMax: 512,
  idempotencyKeyLengthMax: 255,

  // Custom domains
  domainLengthMax: 253,
  // As typed: before it is a name.
  domainTextLengthMax: 300,
  domainWindowHours: 48,
  domainGraceDays: 7,
  domainClaimsPerName: 20,
  domainVerifiesPerMinute: 6,
  /** Two years: what the lists that browsers come with ask for at most. */
  hstsMaxAgeSecondsMax: 2 * 365 * 24 * 3600,

  // Requests
  jsonBodyBytesMax: 1024 * 1024,
  emailLengthMax: 254,
  accountNameLengthMax: 100,

  // Letting people in
  inviteSeconds: 7 * 86_400,
  claimLinkSecondsDefault: 86_400,
  claimLinkSecondsMax: 7 * 86_400,
  waitlistEntriesMax: 5000,
  githostReposMax: 1000,

  // Alerts
  webhookUrlLengthMax: 2000,
  webhookSecretOverlapHours: 24,
  // Tries of one delivery, which take some 22 hours.
  webhookTriesMax: 8,
  // A delivery that is given up ends a webhook that nothing has reached for so long.
  webhookFailingDaysMax: 3,
  alertMessagesPerHour: 10,
  alertDigestLinesMax: 50,
  alertDetailLengthMax: 500,
  alertsOpenShown: 100,
} as const;
