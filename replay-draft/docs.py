import os,shutil
os.chdir('/tmp/wt/replay')
def ed(p,*subs):
    s=open(p).read()
    for a,c in subs:
        assert a in s,(p,a)
        s=s.replace(a,c,1)
    open(p,'w').write(s)
shutil.copy('/tmp/wt/hold/replay.md','docs/scripting/replay.md')
shutil.copy('/tmp/wt/hold/0168-recordings-are-made-at-the-contract.md','docs/adr/0168-recordings-are-made-at-the-contract.md')
s=open('docs/adr/README.md').read()
i=s.index("| [0167]"); j=s.index("\n",i)
s=s[:j]+"\n| [0168](0168-recordings-are-made-at-the-contract.md) | Scripts: recordings are made at the contract with the guest |"+s[j:]
open('docs/adr/README.md','w').write(s)
ed('docs/scripting.md',("| [schedules](scripting/schedules.md)","| [replay](scripting/replay.md) | recorded runs, and another body on them |\n| [schedules](scripting/schedules.md)"),
("belvedere script init scripts/","belvedere script replay xrpc.query:com.example.listByAuthor --body new.lua               # on recorded runs, without effects\nbelvedere script init scripts/"),
("| `GET /admin/scripts/deleted`","| `GET`, `PUT`, `DELETE /admin/scripts/{id}/recording`, `POST …/replay` | [recorded runs](scripting/replay.md), and another body on them |\n| `GET /admin/scripts/deleted`"))
ed('docs/operations.md',("| `belvedere script rollout TRIGGER","| `belvedere script record TRIGGER [--percent N] [--minutes N] [--delete]`, `belvedere script replay TRIGGER [--body FILE] [--runs N]` | [record](scripting/replay.md) runs of a script without secrets, and run another body on them without effects. Exit status of `replay` 0: identical, 1: different. `--url` and `--key` with `scripts:read` and `scripts:manage` |\n| `belvedere script rollout TRIGGER"),
("| `belvedere_script_rollout_runs_total","| `belvedere_script_recordings_total{outcome}` | `dropped` rises: runs are [recorded](scripting/replay.md) faster than they are stored; record a smaller part |\n| `belvedere_script_rollout_runs_total"))
ed('CHANGELOG.md',("- `belvedere script rollout TRIGGER","- `belvedere script record TRIGGER` records runs of a script, without secrets; `belvedere script replay TRIGGER --body FILE` runs a new body on them without effects and shows what\n  differs ([replay](docs/scripting/replay.md)).\n- `belvedere script rollout TRIGGER"))
