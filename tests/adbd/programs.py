"""The phone's own programs as scripts, which answer like Android's as far as tests need."""

from __future__ import annotations

from adbd.models import Model

ANSWERS = "/system/answers"
"""Directory of the texts that the programs print."""

ROOT_HELPER = "/system/xbin/.become"
"""A setuid-root setpriv, which implements `su`."""

TIMED = ("am", "input", "pm", "uiautomator")
"""Programs whose duration a test can set, and whose runs are logged."""

_TIMED = f"""
timed=${{0##*/}} timed_line="${{0##*/}} $*" timed_began=$(/usr/bin/date +%s%N)
trap '/usr/bin/printf "%s\\t%s\\t%s\\n" "$timed_began" "$(/usr/bin/date +%s%N)" "$timed_line" >>{ANSWERS}/actions' EXIT
if [ -f "{ANSWERS}/delays/$timed" ]; then /usr/bin/sleep "$(/usr/bin/cat "{ANSWERS}/delays/$timed")"; fi
"""

_GETPROP = f"""
if [ $# -eq 0 ]; then exec cat {ANSWERS}/getprop; fi
while IFS= read -r line; do
    case $line in
    "[$1]: ["*) line=${{line#*]: [}}; echo "${{line%]}}"; exit 0 ;;
    esac
done <{ANSWERS}/getprop
echo "$2"
"""

_BECOME = f"exec {ROOT_HELPER} --reuid=0 --regid=0 --clear-groups"

_AS_SYSTEM = f"""
case $1 in install|uninstall|put) [ "$(/usr/bin/id -u)" = 0 ] || {_BECOME} "$0" "$@" ;; esac
"""
"""On Android, the system server does this for programs of any user."""

_PM = f"""{_AS_SYSTEM}
listed() {{
    files=; uids=; third=
    for word; do
        case $word in
        -f) files=1 ;;
        -U) if [ @lists_uids@ = 0 ]; then echo "Error: Unknown option: -U" >&2; exit 255; fi; uids=1 ;;
        -3) third=1 ;;
        esac
    done
    while IFS='	' read -r uid apk name; do
        case $third$apk in 1/data/app/*) ;; 1*) continue ;; esac
        echo "package:${{files:+$apk=}}$name${{uids:+ uid:$uid}}"
    done <{ANSWERS}/packages
}}
case $1 in
list)
    case $2 in
    packages) shift 2; listed "$@" ;;
    users) cat {ANSWERS}/users ;;
    *) echo "Error: unknown list type '$2'"; exit 255 ;;
    esac ;;
path)
    while IFS='	' read -r uid apk name; do
        if [ "$name" = "$2" ]; then echo "package:$apk"; exit 0; fi
    done <{ANSWERS}/packages
    exit 1 ;;
install)
    for apk; do :; done
    if [ ! -r "$apk" ]; then echo "Error: Unable to open file: $apk" >&2; exit 1; fi
    name=${{apk##*/}}; name=${{name%.apk}}
    if ! mkdir -p "/data/app/$name" || ! cp "$apk" "/data/app/$name/base.apk"; then
        echo "Failure [INSTALL_FAILED_INSUFFICIENT_STORAGE]"; exit 1
    fi
    printf '10299\\t/data/app/%s/base.apk\\t%s\\n' "$name" "$name" >>{ANSWERS}/packages
    echo Success ;;
uninstall)
    for name; do :; done
    if ! [ -d "/data/app/$name" ]; then echo "Failure [DELETE_FAILED_INTERNAL_ERROR]"; exit 1; fi
    rm -r "/data/app/$name"
    grep -v "	$name$" {ANSWERS}/packages >{ANSWERS}/packages.new; mv {ANSWERS}/packages.new {ANSWERS}/packages
    echo Success ;;
clear|trim-caches) echo Success ;;
*) echo "cmd: unknown command $1" >&2; exit 255 ;;
esac
"""

_DUMPSYS = f"""
case $1 in */*) exit 20 ;; esac
if [ -f "{ANSWERS}/dumpsys/$1" ]; then exec cat "{ANSWERS}/dumpsys/$1"; fi
echo "Can't find service: $1" >&2
exit 20
"""

_CAT = f"""
for word; do
    shift
    case $word in /proc/*) if [ -f "{ANSWERS}$word" ]; then word={ANSWERS}$word; fi ;; esac
    set -- "$@" "$word"
done
exec /usr/bin/cat "$@"
"""

_UNAME = """
all=
for word; do
    case $word in -a) set -- -s -n -r -v -m; all=1 ;; esac
done
if [ $# -eq 0 ]; then set -- -s; fi
line=
for word; do
    case $word in
    -s) part=Linux ;; -n) part=localhost ;; -r) part='@kernel@' ;; -v) part='@version@' ;; -m) part=@machine@ ;;
    *) echo "uname: Unknown option '$word'" >&2; exit 1 ;;
    esac
    line="$line${line:+ }$part"
done
echo "$line${all:+ Toybox}"
"""

_ID = """
case $1 in -Z) case $(/usr/bin/id -u) in 0) echo @root_context@ ;; *) echo @context@ ;; esac ;;
*) exec /usr/bin/id "$@" ;; esac
"""

_SU = {
    "c": f"""
case $1 in
-c) shift; {_BECOME} /system/bin/sh -c "$*" ;;
'') {_BECOME} /system/bin/sh ;;
*) echo "No passwd entry for user '$1'" >&2; exit 1 ;;
esac
""",
    "0": f"""
case $1 in
0|root) shift; if [ $# -eq 0 ]; then set -- /system/bin/sh; fi; {_BECOME} "$@" ;;
'') {_BECOME} /system/bin/sh ;;
*) echo "su: invalid uid/gid '$1'" >&2; exit 1 ;;
esac
""",
}

_AM = """
case $1 in
start|start-activity)
    for name; do :; done
    echo "Starting: Intent { act=android.intent.action.VIEW dat=$name }"
    case " $* " in *" -W "*)
        printf 'Status: ok\\nLaunchState: COLD\\nActivity: %s\\nTotalTime: 412\\nWaitTime: 415\\nComplete\\n' "$name" ;;
    esac ;;
force-stop|kill|kill-all|broadcast) ;;
get-current-user) echo 0 ;;
*) echo "Error: unknown command '$1'" >&2; exit 255 ;;
esac
"""

_INPUT = f"case $1 in tap|swipe|text|keyevent) echo >>{ANSWERS}/taps ;; esac"

_UIAUTOMATOR = f"""
taps=$(/usr/bin/wc -l <{ANSWERS}/taps)
if [ "$1" != dump ]; then echo "Usage: uiautomator <subcommand> [options]"; exit 1; fi
for path; do :; done
case $path in /*) ;; *) path=/sdcard/window_dump.xml ;; esac
printf '%s' "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\\"0\\">\
<node index=\\"0\\" text=\\"$taps taps\\" class=\\"android.widget.FrameLayout\\" \
package=\\"com.android.settings\\" bounds=\\"[0,0][1080,2400]\\" /></hierarchy>" >"$path" || exit 1
echo "UI hierchary dumped to: $path"
"""

_SETTINGS = f"""{_AS_SYSTEM}
case $1 in
get) if [ -f "{ANSWERS}/settings/$2.$3" ]; then cat "{ANSWERS}/settings/$2.$3"; else echo null; fi ;;
put) echo "$4" >"{ANSWERS}/settings/$2.$3" ;;
*) echo "Invalid command: $1" >&2; exit 255 ;;
esac
"""


def programs(model: Model) -> dict[str, str]:
    """Return the scripts of a phone by name, without the first line."""
    filled = {
        "@lists_uids@": str(int(model.lists_uids)),
        "@kernel@": model.kernel,
        "@version@": model.kernel_version,
        "@machine@": model.machine,
        "@context@": model.context,
        "@root_context@": "u:r:magisk:s0" if model.su else "u:r:su:s0",
    }
    scripts = {
        "getprop": _GETPROP,
        "pm": _PM,
        "dumpsys": _DUMPSYS,
        "cat": _CAT,
        "uname": _UNAME,
        "id": _ID,
        "am": _AM,
        "uiautomator": _UIAUTOMATOR,
        "settings": _SETTINGS,
        "cmd": 'case $1 in package) shift; exec pm "$@" ;; *) exit 0 ;; esac',
        "input": _INPUT,
        "logcat": "exit 0",
        "content": 'echo "No result found."',
        "getenforce": f"echo {model.enforcing}",
        "setprop": "exit 0",
        "svc": "exit 0",
        "wm": "case $1 in size) echo 'Physical size: 1080x2400' ;; density) echo 'Physical density: 420' ;; esac",
    }
    if model.su is not None:
        scripts["su"] = _SU[model.su]
    if model.clock_skew_s:
        scripts["date"] = f'exec /usr/bin/date -d "{model.clock_skew_s} seconds" "$@"'
    for name in TIMED:
        scripts[name] = _TIMED + scripts[name]
    for mark, value in filled.items():
        scripts = {name: text.replace(mark, value) for name, text in scripts.items()}
    return scripts
