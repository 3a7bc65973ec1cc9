// `npm run demo`: a router in front of fake providers; `npm run demo -- --share`: one account shared by several keys.

const args = process.argv.slice(2);
const { main } = await import(args.includes('--share') ? './share.mjs' : './router.mjs');
process.exitCode = await main(args.filter((arg) => arg !== '--share'));
