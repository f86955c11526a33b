"""Write Perfetto traces with Google's own library, which shares no code or tables with our reader.

The messages are those of google/perfetto v58 (protos/perfetto/trace), as far as tests need them.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_MESSAGES = """
Trace: packet*=1:TracePacket
TracePacket: timestamp=8:uint64 timestamp_clock_id=58:uint32 trusted_packet_sequence_id=10:uint32
  sequence_flags=13:uint32 incremental_state_cleared=41:bool previous_packet_dropped=42:uint32
  first_packet_on_sequence=87:bool machine_id=98:uint32 trace_packet_defaults=59:TracePacketDefaults
  ftrace_events=1:Bundle process_tree=2:ProcessTree process_stats=9:ProcessStats clock_snapshot=6:ClockSnapshot
  sys_stats=7:SysStats trace_config=33:TraceConfig ftrace_stats=34:FtraceStats trace_stats=35:TraceStats
  system_info=45:SystemInfo packages_list=47:PackagesList compressed_packets=50:bytes
  zstd_compressed_packets=133:bytes track_event=11:bytes frame_timeline_event=76:FrameEvent for_testing=900:bytes
TracePacketDefaults: timestamp_clock_id=58:uint32
Bundle: cpu=1:uint32 event*=2:FtraceEvent lost_events=3:bool compact_sched=4:CompactSched ftrace_clock=5:int32
  ftrace_timestamp=6:int64 boot_timestamp=7:int64 error*=8:FtraceError
  generic_event_descriptors*=11:GenericEventDescriptor broken_abi_trace_page=512:bytes
FtraceError: timestamp=1:uint64 status=2:int32
GenericEventDescriptor: field_id=1:int32 event_descriptor=2:bytes group_name=3:string
CompactSched: switch_timestamp#=1:uint64 switch_prev_state#=2:int64 switch_next_pid#=3:int32 switch_next_prio#=4:int32
  intern_table*=5:string switch_next_comm_index#=6:uint32 waking_timestamp#=7:uint64 waking_pid#=8:int32
  waking_target_cpu#=9:int32 waking_prio#=10:int32 waking_comm_index#=11:uint32 waking_common_flags#=12:uint32
FtraceEvent: timestamp=1:uint64 pid=2:uint32 sched_switch=4:SchedSwitch sched_waking=20:SchedWaking
  sched_blocked_reason=18:BlockedReason
  ext4_da_write_begin=41:Ext4Write block_rq_issue=45:BlockRq mm_filemap_add_to_page_cache=97:Filemap
  block_bio_queue=119:BlockBio block_bio_remap=120:BlockRemap block_plug=123:BlockPlug block_rq_complete=125:BlockDone
  block_rq_insert=126:BlockRq block_rq_requeue=129:BlockDone block_split=131:BlockSplit block_unplug=133:BlockUnplug
  block_bio_backmerge=115:BlockBio block_touch_buffer=132:BlockBuffer block_io_start=546:BlockIo
  block_io_done=547:BlockIo ext4_allocate_inode=136:Ext4Allocate ext4_es_insert_extent=152:Ext4Extent
  ext4_es_lookup_extent_exit=154:Ext4Extent ext4_free_blocks=178:Ext4Free ext4_free_inode=179:Ext4FreeInode
  ext4_evict_inode=160:Ext4Evict ext4_unlink_enter=217:Ext4Unlink task_newtask=235:TaskNewtask
  task_rename=236:TaskRename sched_process_exec=237:SchedExec sched_process_exit=238:SchedExit
  sched_process_fork=239:SchedFork f2fs_iget=248:F2fsInode f2fs_new_inode=250:F2fsNew f2fs_unlink_enter=268:F2fsUnlink
  f2fs_iostat=419:F2fsIostat android_fs_datawrite_start=434:AndroidFs oom_score_adj_update=326:OomScoreAdj
  generic=327:Generic sys_enter=329:SysEnter sys_exit=330:SysExit ufshcd_command=406:Ufs
  scsi_dispatch_cmd_timeout=598:ScsiTimeout described_a=65536:bytes described_b=65537:bytes
SchedSwitch: prev_comm=1:string prev_pid=2:int32 prev_prio=3:int32 prev_state=4:int64 next_comm=5:string
  next_pid=6:int32
BlockedReason: pid=1:int32 caller=2:uint64 io_wait=3:uint32
SchedWaking: comm=1:string pid=2:int32
SchedExec: filename=1:string pid=2:int32 old_pid=3:int32
SchedExit: comm=1:string pid=2:int32 tgid=3:int32
SchedFork: parent_comm=1:string parent_pid=2:int32 child_comm=3:string child_pid=4:int32
TaskNewtask: pid=1:int32 comm=2:string clone_flags=3:uint64 oom_score_adj=4:int32
OomScoreAdj: comm=1:string oom_score_adj=2:int32 pid=3:int32
TaskRename: pid=1:int32 oldcomm=2:string newcomm=3:string
BlockRq: dev=1:uint64 sector=2:uint64 nr_sector=3:uint32 bytes=4:uint32 rwbs=5:string comm=6:string cmd=7:string
BlockBio: dev=1:uint64 sector=2:uint64 nr_sector=3:uint32 rwbs=4:string comm=5:string
BlockRemap: dev=1:uint64 sector=2:uint64 nr_sector=3:uint32 old_dev=4:uint64 old_sector=5:uint64 rwbs=6:string
BlockDone: dev=1:uint64 sector=2:uint64 nr_sector=3:uint32 errors=4:int32 rwbs=5:string cmd=6:string error=7:int32
BlockSplit: dev=1:uint64 sector=2:uint64 new_sector=3:uint64 rwbs=4:string comm=5:string
BlockPlug: comm=1:string
BlockUnplug: nr_rq=1:int32 comm=2:string
BlockBuffer: dev=1:uint64 sector=2:uint64 size=3:uint64
BlockIo: dev=1:uint64 sector=2:uint64 nr_sector=3:uint32 bytes=4:uint32 ioprio=5:uint32 rwbs=6:string comm=7:string
Ext4Write: dev=1:uint64 ino=2:uint64 pos=3:int64 len=4:uint32 flags=5:uint32
Ext4Allocate: dev=1:uint64 ino=2:uint64 dir=3:uint64 mode=4:uint32
Ext4Extent: dev=1:uint64 ino=2:uint64 lblk=3:uint32 len=4:uint32 pblk=5:uint64 status=6:uint64 found=7:int32
Ext4Free: dev=1:uint64 ino=2:uint64 block=3:uint64 count=4:uint64 flags=5:int32 mode=6:uint32
Ext4FreeInode: dev=1:uint64 ino=2:uint64 uid=3:uint32 gid=4:uint32 blocks=5:uint64 mode=6:uint32
Ext4Evict: dev=1:uint64 ino=2:uint64 nlink=3:int32
Ext4Unlink: dev=1:uint64 ino=2:uint64 parent=3:uint64 size=4:int64
Filemap: pfn=1:uint64 i_ino=2:uint64 index=3:uint64 s_dev=4:uint64 page=5:uint64
F2fsInode: dev=1:uint64 ino=2:uint64 pino=3:uint64 mode=4:uint32 size=5:int64 nlink=6:uint32 blocks=7:uint64
F2fsNew: dev=1:uint64 ino=2:uint64 ret=3:int32
F2fsUnlink: dev=1:uint64 ino=2:uint64 size=3:int64 blocks=4:uint64 name=5:string
F2fsIostat: app_bio=1:uint64 app_brio=2:uint64 app_dio=3:uint64 app_drio=4:uint64 app_mio=5:uint64 app_mrio=6:uint64
  app_rio=7:uint64 app_wio=8:uint64 dev=9:uint64 fs_cdrio=10:uint64 fs_cp_dio=11:uint64 fs_cp_mio=12:uint64
  fs_cp_nio=13:uint64 fs_dio=14:uint64 fs_discard=15:uint64 fs_drio=16:uint64 fs_gc_dio=17:uint64 fs_gc_nio=18:uint64
  fs_gdrio=19:uint64 fs_mio=20:uint64 fs_mrio=21:uint64 fs_nio=22:uint64 fs_nrio=23:uint64
AndroidFs: bytes=1:int32 cmdline=2:string i_size=3:int64 ino=4:uint64 offset=5:int64 pathbuf=6:string pid=7:int32
Ufs: dev_name=1:string doorbell=2:uint32 intr=3:uint32 lba=4:uint64 opcode=5:uint32 str=6:string tag=7:uint32
  transfer_len=8:int32 group_id=9:uint32 str_t=10:uint32
ScsiTimeout: host_no=1:uint32 channel=2:uint32 id=3:uint32 lun=4:uint32 result=5:int32 opcode=6:uint32
  driver_tag=12:int32 cmnd=17:bytes
SysEnter: id=1:int64 args*=2:uint64
SysExit: id=1:int64 ret=2:int64
Generic: event_name=1:string field*=2:GenericField
GenericField: name=1:string str_value=3:string int_value=4:int64 uint_value=5:uint64
ProcessTree: processes*=1:Process threads*=2:Thread
Process: pid=1:int32 ppid=2:int32 cmdline*=3:string uid=5:int32 is_kthread=8:bool cmdline_is_comm=9:bool
Thread: tid=1:int32 name=2:string tgid=3:int32
ProcessStats: processes*=1:ProcessStat
ProcessStat: pid=1:int32 oom_score_adj=10:int64 threads*=11:StatThread
StatThread: tid=1:int32
PackagesList: packages*=1:Package
Package: name=1:string uid=2:uint64
ClockSnapshot: clocks*=1:Clock primary_trace_clock=2:int32
Clock: clock_id=1:uint32 timestamp=2:uint64 is_incremental=3:bool unit_multiplier_ns=4:uint64
SysStats: meminfo*=1:KeyValue vmstat*=2:KeyValue cpu_stat*=3:CpuTimes num_forks=4:uint64 disk_stat*=13:DiskStat
KeyValue: key=1:int32 value=2:uint64
CpuTimes: cpu_id=1:uint32 user_ns=2:uint64 user_nice_ns=3:uint64 system_mode_ns=4:uint64 idle_ns=5:uint64
  io_wait_ns=6:uint64
DiskStat: device_name=1:string read_sectors=2:uint64 read_time_ms=3:uint64 write_sectors=4:uint64
TraceConfig: data_sources*=2:DataSource
DataSource: config=1:DataSourceConfig
DataSourceConfig: name=1:string ftrace_config=100:FtraceConfig
FtraceConfig: ftrace_events*=1:string atrace_categories*=2:string
FtraceStats: phase=1:int32 cpu_stats*=2:CpuStats unknown_ftrace_events*=6:string failed_ftrace_events*=7:string
CpuStats: cpu=1:uint64 overrun=3:uint64 commit_overrun=4:uint64 dropped_events=8:uint64
TraceStats: buffer_stats*=1:BufferStats
BufferStats: chunks_overwritten=3:uint64 chunks_discarded=18:uint64 trace_writer_packet_loss=19:uint64
SystemInfo: utsname=1:Utsname android_build_fingerprint=2:string android_sdk_version=5:uint64 page_size=6:uint32
FrameEvent: expected_display_frame_start=1:DisplayFrame actual_display_frame_start=2:DisplayFrame
  expected_surface_frame_start=3:SurfaceFrame actual_surface_frame_start=4:SurfaceFrame frame_end=5:FrameEnd
DisplayFrame: cookie=1:int64 token=2:int64 pid=3:int32 present_type=4:int32 on_time_finish=5:bool gpu_composition=6:bool
  jank_type=7:int32 prediction_type=8:int32
SurfaceFrame: cookie=1:int64 token=2:int64 display_frame_token=3:int64 pid=4:int32 layer_name=5:string
  present_type=6:int32 on_time_finish=7:bool gpu_composition=8:bool jank_type=9:int32 prediction_type=10:int32
  is_buffer=11:bool
FrameEnd: cookie=1:int64
Utsname: sysname=1:string version=2:string release=3:string machine=4:string
"""
"""Name of each message, and its fields: ``*`` for repeated, ``#`` for packed ones."""

_TYPES = {
    "uint32": descriptor_pb2.FieldDescriptorProto.TYPE_UINT32,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package="t", syntax="proto2")
    for line in _MESSAGES.replace("\n  ", " ").strip().splitlines():
        name, _, fields = line.partition(":")
        message = file.message_type.add(name=name)
        for text in fields.split():
            field_name, _, rest = text.partition("=")
            number, _, kind = rest.partition(":")
            field = message.field.add(name=field_name.rstrip("*#"), number=int(number))
            repeated = field_name[-1] in "*#"
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            field.options.packed = field_name[-1] == "#"
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".t.{kind}"
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def message(name: str) -> Any:
    """Return the class of message `name`."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"t.{name}"))


Trace, TracePacket = message("Trace"), message("TracePacket")


def trace(*packets: dict[str, Any]) -> bytes:
    """Return a trace of packets; messages are mappings, repeated fields lists."""
    data: bytes = Trace(packet=packets).SerializeToString()
    return data


def bundle(*events: dict[str, Any], cpu: int = 0, **more: Any) -> dict[str, Any]:
    """Return a packet with a bundle of events."""
    return {"ftrace_events": {"cpu": cpu, "event": list(events), **more}, "trusted_packet_sequence_id": 1}


def generic(name: str, /, **fields: int | str) -> dict[str, Any]:
    """Return the event as a GenericFtraceEvent."""
    values = [
        {"name": field, "str_value": value}
        if isinstance(value, str)
        else {"name": field, "int_value" if value < 0 else "uint_value": value}
        for field, value in fields.items()
    ]
    return {"generic": {"event_name": name, "field": values}}


def described(name: str, number: int, /, **fields: int | str) -> tuple[dict[str, Any], bytes]:
    """Return a GenericEventDescriptor of the event, and the event as the described message."""
    proto = descriptor_pb2.DescriptorProto(name=name)
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=name, syntax="proto2")
    for place, (field, value) in enumerate(fields.items(), 1):
        kind = "string" if isinstance(value, str) else "int64" if value < 0 else "uint64"
        proto.field.add(name=field, number=place, type=_TYPES[kind], label=1)
    file.message_type.add().CopyFrom(proto)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{name}.{name}"))(**fields)
    return {"field_id": number, "event_descriptor": proto.SerializeToString()}, made.SerializeToString()


def userland(major: int, minor: int) -> int:
    """Return a device number like makedev(3)."""
    return (major & 0xFFF) << 8 | minor & 0xFF | (minor & ~0xFF) << 12 | (major & ~0xFFF) << 32
